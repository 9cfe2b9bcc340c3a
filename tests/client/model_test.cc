// SPDX-License-Identifier: Apache-2.0
#include "client/model_verbs.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using ::testing::HasSubstr;

using ModelTest = ClientTest;

TEST_F(ModelTest, NeedsAVerb) {
  EXPECT_EQ(RunVerb({"model"}).code, 2);
  EXPECT_EQ(RunVerb({"model", "lend"}).code, 2);
  const Result help = RunBare({"model", "--help"});
  for (const char* verb : {"push", "list", "rm"}) {
    EXPECT_THAT(help.out, HasSubstr(verb));
  }
}

TEST_F(ModelTest, InWords) {
  v1::Model model;
  model.set_size_bytes(1000);
  EXPECT_EQ(ModelText(model), "1.0 kB");
  EXPECT_EQ(FitText(model), "");
  model.set_family("bert");
  model.set_parameters(1234);
  model.add_tasks("SEQ_CLS");
  EXPECT_EQ(ModelText(model), "1.0 kB, bert, 1,234 parameters, for SEQ_CLS");
  model.set_least_memory_bytes(5'000'000);
  EXPECT_EQ(FitText(model), "LoRA takes 5.0 MB of memory at least");
  model.set_fits(false);
  EXPECT_EQ(FitText(model),
            "LoRA takes 5.0 MB of memory at least, and mpsd's machine has "
            "less");
}

}  // namespace
}  // namespace mpsd::client
