// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;
using testing::Not;

class CloneTest : public ClientTest {
 protected:
  CloneTest() {
    AddJob(kOtherId, v1::JOB_STATE_SUCCEEDED);
    AddJob(kId, v1::JOB_STATE_QUEUED);  // what Submit answers with
    v1::SubmitRequest& kept = data().requests[kOtherId];
    kept.set_spec_json(R"({"name": "moods", "model": "org/id",
        "dataset": {"train": "t.jsonl", "eval": "e.jsonl"},
        "training": {"learning_rate": 2e-4}})");
    for (const char* path : {"t.jsonl", "e.jsonl"}) {
      v1::InputFile* input = kept.add_inputs();
      input->set_path(path);
      input->set_sha256(std::string(64, path[0] == 't' ? 'a' : 'b'));
    }
    kept.set_priority(3);
    (*kept.mutable_labels())["team"] = "nlp";
    kept.add_after("01KAH0000000000000000000CC");
  }
  Result Clone(std::vector<std::string> options) {
    options.insert(options.begin(), {"clone", kOtherId});
    return RunVerb(options);
  }
};

TEST_F(CloneTest, ChangesWhatIsAskedForAndNothingElse) {
  const Result result = Clone({"--set", "training.learning_rate=1e-4", "--name",
                               "slower", "--label", "try=2", "--detach"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "FIELD                   JOB      CLONE\n"
            "name                    \"moods\"  \"slower\"\n"
            "training.learning_rate  0.0002   0.0001\n"
            "Job 01KAH0000000000000000000AA submitted: QUEUED\n"
            "Follow it with `mpsctl watch 01KAH0000000000000000000AA`.\n");
  ASSERT_EQ(data().submitted.size(), 1u);
  const v1::SubmitRequest& request = data().submitted[0];
  const auto spec = nlohmann::json::parse(request.spec_json());
  EXPECT_EQ(spec["training"]["learning_rate"], 1e-4);
  EXPECT_EQ(spec["name"], "slower");
  EXPECT_EQ(spec["dataset"]["train"], "t.jsonl");
  EXPECT_EQ(request.inputs_size(), 2);
  EXPECT_EQ(request.priority(), 3);
  EXPECT_EQ(request.labels().at("team"), "nlp");
  EXPECT_EQ(request.labels().at("try"), "2");
  EXPECT_EQ(request.after_size(), 0);
  EXPECT_FALSE(request.idempotency_key().empty());
  EXPECT_EQ(data().uploads, 0);
}

TEST_F(CloneTest, TwoClonesAreTwoJobs) {
  EXPECT_EQ(Clone({"--detach"}).code, 0);
  EXPECT_THAT(Clone({"--detach"}).out,
              HasSubstr("The clone has the spec of job"));
  EXPECT_EQ(data().made, 2);
}

TEST_F(CloneTest, WaitsForOthersAndIsHeld) {
  const Result result =
      Clone({"--after", "0000BB", "--hold", "--priority", "-1", "--detach"});
  EXPECT_EQ(result.code, 0) << result.err;
  const v1::SubmitRequest& request = data().submitted.at(0);
  ASSERT_EQ(request.after_size(), 1);
  EXPECT_EQ(request.after(0), kOtherId);
  EXPECT_TRUE(request.held());
  EXPECT_EQ(request.priority(), -1);
}

TEST_F(CloneTest, WhyItWillNotStartIsSaid) {
  data().jobs[0].add_after(kOtherId);
  data().jobs[0].set_hold("waits for job X, which is RUNNING, to succeed");
  EXPECT_THAT(Clone({"--detach"}).out,
              HasSubstr("QUEUED\nIt waits for job X, which is RUNNING"));
  data().jobs[0].set_held(true);
  data().jobs[0].set_hold("job X is FAILED");
  EXPECT_THAT(Clone({"--detach"}).out,
              HasSubstr("It is held: job X is FAILED\n"));
}

TEST_F(CloneTest, DataThatAreNamedNoLongerStayBehind) {
  EXPECT_EQ(Clone({"--unset", "dataset.eval", "--detach"}).code, 0);
  ASSERT_EQ(data().submitted.at(0).inputs_size(), 1);
  EXPECT_EQ(data().submitted[0].inputs(0).path(), "t.jsonl");
}

TEST_F(CloneTest, AWrongFieldIsFoundHere) {
  const Result result = Clone({"--set", "training.learning_rat=1"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("the clone's job.json:"));
  EXPECT_THAT(result.err, HasSubstr("learning_rate"));
  EXPECT_THAT(result.err, HasSubstr("Nothing was submitted."));
  EXPECT_EQ(Clone({"--set", "training"}).code, 2);
  EXPECT_EQ(Clone({"--label", "x"}).code, 2);
  EXPECT_TRUE(data().submitted.empty());
}

TEST_F(CloneTest, ADryRunSubmitsNothing) {
  const Result text = Clone({"--dry-run", "--set", "training.seed=7"});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, HasSubstr("training.seed  42"));
  const auto json = nlohmann::json::parse(
      Clone({"--json", "--dry-run", "--set", "training.seed=7"}).out);
  EXPECT_EQ(json["spec"]["training"]["seed"], 7);
  EXPECT_TRUE(data().submitted.empty());
}

TEST_F(CloneTest, WhatTheDaemonRefuses) {
  data().fail["Submit"] = {grpc::StatusCode::FAILED_PRECONDITION,
                           "model: there is no folder org/id"};
  const Result gone = Clone({"--detach"});
  EXPECT_EQ(gone.code, 2);
  EXPECT_THAT(gone.err, HasSubstr("model: there is no folder org/id"));
  data().fail["GetSubmission"] = {grpc::StatusCode::FAILED_PRECONDITION,
                                  "no request was kept"};
  const Result old = Clone({"--detach"});
  EXPECT_EQ(old.code, 2);
  EXPECT_THAT(old.err, HasSubstr("no request was kept"));
  EXPECT_EQ(RunVerb({"clone", "01KAH0000000000000000000ZZ"}).code, 4);
}

TEST_F(CloneTest, HostileTextsSteerNoTerminal) {
  data().requests[kOtherId].set_spec_json(
      R"({"name": "\u001b[2J", "model": "m", "dataset": {"train": "t"}})");
  const Result result = Clone({"--dry-run", "--name", "x"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace mpsd::client
