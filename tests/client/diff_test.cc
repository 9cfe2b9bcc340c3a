// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"
#include "tests/client/some_records.h"

namespace mpsd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A job that is there, and one that was deleted.
class DiffTest : public ClientTest {
 protected:
  DiffTest() {
    AddJob(kId, v1::JOB_STATE_SUCCEEDED).set_device_seconds(80);
    data().records[kId] = SomeRecord(kId);
    v1::Job past;
    past.set_id(kOtherId);
    past.set_past(true);
    data().past.push_back(past);
    v1::JobRecord& other = data().records[kOtherId] = SomeRecord(kOtherId);
    other.set_spec_json(R"({"model": "m", "lora": {"r": 16}})");
    other.mutable_environment()->set_torch_version("2.7.0");
    other.mutable_environment()->mutable_variables()->clear();
    other.mutable_conditions()->set_power_sources(0, "battery");
    other.mutable_data()->mutable_inputs(0)->set_sha256(std::string(64, 'b'));
    (*other.mutable_metrics())["accuracy"] = 0.75;
  }
};

TEST_F(DiffTest, WhatDiffersAndTheResults) {
  const Result result = RunVerb({"diff", kId, kOtherId});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      testing::StartsWith(
          "SPEC    01KAH0000000000000000000AA  01KAH0000000000000000000BB\n"
          "lora.r  4                           16\n\n"
          "ENVIRONMENT "));
  for (const char* text :
       {"2.6.0", "2.7.0", "variables OMP_NUM_THREADS", "inputs t.jsonl",
        "battery", "RESULTS", "eval loss", "1.2500", "metrics accuracy"}) {
    EXPECT_THAT(result.out, HasSubstr(text)) << text;
  }
  EXPECT_THAT(result.out, Not(HasSubstr("nominal, heavy"))) << "the same";
}

TEST_F(DiffTest, JsonIsOneObject) {
  const std::string out = RunVerb({"diff", kId, kOtherId, "--json"}).out;
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1);
  const auto json = nlohmann::json::parse(out);
  EXPECT_EQ(json["a"], kId);
  EXPECT_EQ(json["spec"]["lora.r"], (nlohmann::json{4, 16}));
  EXPECT_EQ(json["environment"]["torch version"],
            (nlohmann::json{"2.6.0", "2.7.0"}));
  EXPECT_EQ(json["environment"]["variables OMP_NUM_THREADS"],
            (nlohmann::json{8, nullptr}));
  EXPECT_EQ(json["results"]["eval loss"], (nlohmann::json{1.25, 1.25}));
  EXPECT_EQ(json["jobs"][0]["device_seconds"], 80);
  EXPECT_EQ(json["records"][1]["id"], kOtherId);
}

TEST_F(DiffTest, TheSameSpecs) {
  EXPECT_THAT(RunVerb({"diff", kId, kId}).out,
              testing::StartsWith("The specs are the same.\n\nRESULTS"));
}

TEST_F(DiffTest, TwoJobsAreWanted) {
  EXPECT_EQ(RunVerb({"diff", kId}).code, 2);
  EXPECT_EQ(RunVerb({"diff", kId, kOtherId, kId}).code, 2);
  EXPECT_EQ(RunVerb({"diff", kId, "01KAH0000000000000000000ZZ"}).code, 4);
  data().fail["GetRecord"] = {grpc::StatusCode::PERMISSION_DENIED, "no"};
  EXPECT_EQ(RunVerb({"diff", kId, kOtherId}).code, 8);
}

}  // namespace
}  // namespace mpsd::client
