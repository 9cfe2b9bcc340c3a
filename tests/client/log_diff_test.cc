// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"
#include "tests/client/some_records.h"

namespace mpsd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LogDiffTest : public ClientTest {
 protected:
  LogDiffTest() {
    v1::Record other = SomeRecord(kOtherId);
    other.set_spec_json(R"({"model": "m", "lora": {"r": 16}})");
    other.mutable_environment()->set_torch_version("2.7.0");
    other.mutable_environment()->mutable_variables()->clear();
    other.mutable_conditions()->set_power_sources(0, "battery");
    daemon_->logbook().records = {SomeRecord(kId), other};
  }
};

TEST_F(LogDiffTest, WhatDiffersAndTheResults) {
  const Result result = RunVerb({"log", "diff", kId, kOtherId});
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* text : {"lora.r", "2.6.0", "2.7.0", "$OMP_NUM_THREADS",
                           "battery", "eval loss"}) {
    EXPECT_THAT(result.out, HasSubstr(text)) << text;
  }
  EXPECT_THAT(result.out, Not(HasSubstr("nominal, heavy"))) << "the same";
}

TEST_F(LogDiffTest, AsJson) {
  const auto json = nlohmann::json::parse(
      RunVerb({"--json", "log", "diff", kId, kOtherId}).out);
  EXPECT_EQ(json["a"], kId);
  EXPECT_EQ(json["spec"]["lora.r"], (nlohmann::json{"4", "16"}));
  EXPECT_EQ(json["environment"]["torch"], (nlohmann::json{"2.6.0", "2.7.0"}));
  EXPECT_EQ(json["environment"]["$OMP_NUM_THREADS"],
            (nlohmann::json{"8", nullptr}));
  EXPECT_EQ(json["results"]["eval loss"], (nlohmann::json{"1.2500", "1.2500"}));
  EXPECT_EQ(json["records"][1]["id"], kOtherId);
}

TEST_F(LogDiffTest, TheSameSpecs) {
  EXPECT_THAT(RunVerb({"log", "diff", kId, kId}).out,
              HasSubstr("The specs are the same."));
  EXPECT_EQ(RunVerb({"log", "diff", kId}).code, 2);
  EXPECT_EQ(RunVerb({"log", "diff", kId, "NONE"}).code, 4);
}

}  // namespace
}  // namespace mpsd::client
