// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;

class DiffTest : public ClientTest {
 protected:
  DiffTest() {
    Put(kOtherId, "2e-4", 'a');
    Put(kId, "1e-4", 'b');
  }
  void Put(const std::string& id, const std::string& rate, char hash) {
    v1::Job& job = AddJob(id, v1::JOB_STATE_SUCCEEDED);
    job.set_spec_json(R"({"name": ")" + rate + "\"}");
    job.set_train_loss(hash == 'a' ? 1.5 : 1.25);
    job.set_eval_loss_after(0.5);
    (*job.mutable_metrics())["accuracy"] = hash == 'a' ? 0.9 : 0.8;
    job.set_device_seconds(80);
    v1::SubmitRequest& kept = data().requests[id];
    kept.set_spec_json(R"({"model": "org/id", "dataset": {"train": "t.jsonl"},
        "training": {"learning_rate": )" +
                       rate + "}}");
    v1::InputFile* input = kept.add_inputs();
    input->set_path("t.jsonl");
    input->set_sha256(std::string(64, hash));
  }
};

TEST_F(DiffTest, ShowsSpecDataAndResults) {
  const Result result = RunVerb({"diff", kOtherId, kId});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(
      result.out,
      "SPEC                    01KAH0000000000000000000BB  "
      "01KAH0000000000000000000AA\n"
      "training.learning_rate  0.0002                      0.0001\n"
      "\n"
      "DATA (SHA-256)  01KAH0000000000000000000BB  01KAH0000000000000000000AA\n"
      "t.jsonl         aaaaaaaaaaaa                bbbbbbbbbbbb\n"
      "\n"
      "RESULT       01KAH0000000000000000000BB  01KAH0000000000000000000AA\n"
      "state        SUCCEEDED                   SUCCEEDED\n"
      "train loss   1.5000                      1.2500\n"
      "eval loss    0.5000                      0.5000\n"
      "accuracy     0.9000                      0.8000\n"
      "device time  1m20s                       1m20s\n");
}

TEST_F(DiffTest, WhatIsTheSameIsSaid) {
  data().requests[kId] = data().requests[kOtherId];
  const std::string out = RunVerb({"diff", kOtherId, kId}).out;
  EXPECT_THAT(out, HasSubstr("The specs are the same.\n"));
  EXPECT_THAT(out, HasSubstr("The data are the same: files uploaded 1.\n"));
}

TEST_F(DiffTest, AFileOfOneJobAlone) {
  v1::InputFile* input = data().requests[kId].add_inputs();
  input->set_path("e.jsonl");
  input->set_sha256(std::string(64, 'c'));
  EXPECT_THAT(RunVerb({"diff", kOtherId, kId}).out,
              HasSubstr("e.jsonl         -                           cccc"));
}

TEST_F(DiffTest, JsonIsOneObject) {
  const std::string out = RunVerb({"diff", kOtherId, kId, "--json"}).out;
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1);
  const auto json = nlohmann::json::parse(out);
  EXPECT_EQ(json["a"], kOtherId);
  EXPECT_EQ(json["spec"]["training.learning_rate"],
            nlohmann::json({2e-4, 1e-4}));
  EXPECT_EQ(json["data"]["t.jsonl"][1], std::string(64, 'b'));
  EXPECT_EQ(json["jobs"][1]["train_loss"], 1.25);
}

TEST_F(DiffTest, AJobOfAnEarlierReleaseIsComparedAsItRan) {
  data().fail["GetSubmission"] = {grpc::StatusCode::FAILED_PRECONDITION,
                                  "no request was kept"};
  const Result result = RunVerb({"diff", kOtherId, kId});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err,
              HasSubstr(std::string(kId) + " was made by a release"));
  EXPECT_THAT(result.out, HasSubstr("name  \"2e-4\""));
}

TEST_F(DiffTest, TwoJobsAreWanted) {
  EXPECT_EQ(RunVerb({"diff", kId}).code, 2);
  EXPECT_EQ(RunVerb({"diff", kId, kOtherId, kId}).code, 2);
  EXPECT_EQ(RunVerb({"diff", kId, "01KAH0000000000000000000ZZ"}).code, 4);
  data().fail["GetSubmission"] = {grpc::StatusCode::PERMISSION_DENIED, "no"};
  EXPECT_EQ(RunVerb({"diff", kId, kOtherId}).code, 8);
}

}  // namespace
}  // namespace mpsd::client
