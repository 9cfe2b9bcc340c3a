// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ModelRemoveTest : public ClientTest {
 protected:
  v1::Model& Add(const std::string& name) {
    v1::Model model;
    model.set_name(name);
    model.set_size_bytes(2'000'000);
    return daemon_->models().listed.emplace_back(model);
  }
};

TEST_F(ModelRemoveTest, RemovesEachAndSaysWhatComesBack) {
  Add("a");
  Add("org/b").set_pulled(true);
  const Result result = RunVerb({"model", "rm", "a", "org/b"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(daemon_->models().removed, ElementsAre("a", "org/b"));
  EXPECT_THAT(result.out, HasSubstr("Model a is removed, 2.0 MB to be given "
                                    "back once uploads"));
  EXPECT_THAT(result.out,
              HasSubstr("Model org/b is removed, 2.0 MB given back.\n"));
}

TEST_F(ModelRemoveTest, GoesOnAfterOneThatIsNotThere) {
  Add("b");
  const Result result = RunVerb({"model", "rm", "none", "b"});
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.err, HasSubstr("mpsd has no model none"));
  EXPECT_THAT(daemon_->models().removed, ElementsAre("b"));
}

TEST_F(ModelRemoveTest, OneThatAJobNeedsStays) {
  Add("a");
  data().fail["RemoveModel"] =
      grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                   "a job that has not ended needs the model a");
  const Result result = RunVerb({"model", "rm", "a"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("needs the model a"));
}

TEST_F(ModelRemoveTest, Json) {
  Add("a");
  const Result result = RunVerb({"model", "rm", "a", "--json"});
  EXPECT_EQ(result.out, "{\"name\":\"a\",\"freed_bytes\":2000000}\n");
}

}  // namespace
}  // namespace mpsd::client
