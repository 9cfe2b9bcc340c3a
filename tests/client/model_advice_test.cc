// SPDX-License-Identifier: Apache-2.0
#include "client/model_advice.h"

#include <string>

#include "tests/client/client_fixture.h"
#include "tests/client/model_folder.h"

namespace mpsd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ModelAdviceTest : public ClientTest {
 protected:
  static grpc::Status NoModel() {
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                        "model: there is no model folder there");
  }
  static std::string Spec(const std::string& model) {
    return nlohmann::json({{"model", model}}).dump();
  }
};

TEST_F(ModelAdviceTest, AFolderOfThisMachineIsToBeSent) {
  const std::string folder = folder_ / "tiny";
  WriteModelFolder(folder);
  EXPECT_EQ(ModelAdvice(Spec(folder), NoModel()),
            "The folder is on this machine: send it with `mpsctl model push " +
                folder + "`, and write \"model\": \"tiny\" into job.json.");
}

TEST_F(ModelAdviceTest, OtherErrorsAndModelsGetNone) {
  const std::string folder = folder_ / "tiny";
  EXPECT_EQ(ModelAdvice(Spec(folder), NoModel()), "") << "no folder here";
  WriteModelFolder(folder);
  EXPECT_EQ(ModelAdvice(Spec("org/m"), NoModel()), "");
  for (const std::string& spec :
       {std::string(), std::string("{"), std::string("[]"), std::string("{}"),
        std::string(R"({"model": 7})"), std::string(100'000, '[')}) {
    EXPECT_EQ(ModelAdvice(spec, NoModel()), "") << spec.substr(0, 20);
  }
  EXPECT_EQ(ModelAdvice(Spec(folder),
                        grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                                     "the job needs about 80 GiB")),
            "");
  EXPECT_EQ(
      ModelAdvice(Spec(folder), grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                                             "model: of type t5")),
      "");
}

TEST_F(ModelAdviceTest, SubmitPrintsIt) {
  WriteModelFolder(folder_ / "tiny");
  WriteText(folder_ / "t.jsonl", "{\"text\": \"a\"}\n");
  WriteText(folder_ / "job.json",
            R"({"model": "tiny", "dataset": {"train": "t.jsonl"}})");
  data().fail["Submit"] = NoModel();
  const Result result = RunVerb({"submit", (folder_ / "job.json").string()});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("mpsctl model push " +
                                    (folder_ / "tiny").string() + "`"));
}

TEST_F(ModelAdviceTest, TheNameOfAFolder) {
  EXPECT_EQ(ModelNameOf(folder_ / "tiny"), "tiny");
  EXPECT_EQ(ModelNameOf(folder_ / "tiny/"), "tiny");
  EXPECT_EQ(ModelNameOf(folder_ / "a" / ".." / "tiny" / "."), "tiny");
  EXPECT_EQ(ModelNameOf(folder_ / "models--org--m" / "snapshots" / "c0ffee"),
            "org/m");
}

}  // namespace
}  // namespace mpsd::client
