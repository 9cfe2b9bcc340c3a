// SPDX-License-Identifier: Apache-2.0
#include "server/openai/job_calls.h"

#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/server/openai/fixture.h"

namespace mpsd::openai {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;

class JobCallsTest : public DoorFixture {
 protected:
  http::Response Create(
      const std::string& file, const std::string& more = "",
      http::Request request = RequestOf("POST", "/v1/fine_tuning/jobs")) {
    return Ask(std::move(request),
               "{\"model\": \"org/base\", "
               "\"training_file\": \"" +
                   file + "\"" + more + "}");
  }
  static std::string JobPath(int number, const std::string& more = "") {
    return "/v1/fine_tuning/jobs/" + IdOf(number) + more;
  }
};

TEST_F(JobCallsTest, CreateSubmitsAsTheTokensOwner) {
  const std::string file = PutFile("hello");
  audit_.Take();
  const http::Response response =
      Create(file, ", \"suffix\": \"mine\", \"metadata\": {\"team\": \"nlp\"}");
  ASSERT_EQ(response.status, 200) << response.body;
  const auto job = JsonOf(response);
  EXPECT_EQ(job["object"], "fine_tuning.job");
  EXPECT_EQ(job["status"], "queued");
  EXPECT_EQ(job["training_file"], file);
  EXPECT_EQ(job["organization_id"], "ada");
  ASSERT_THAT(submitted_, SizeIs(1));
  EXPECT_EQ(submitted_[0].owner, "ada");
  ASSERT_THAT(submitted_[0].inputs, SizeIs(1));
  EXPECT_EQ(submitted_[0].inputs[0].path, "training/train.jsonl");
  EXPECT_EQ(submitted_[0].inputs[0].sha256, base::Sha256Hex("hello"));
  const auto entries = audit_.Take();
  ASSERT_THAT(entries, SizeIs(1));
  EXPECT_EQ(entries[0].request.method, "JobService.Submit");
  EXPECT_THAT(entries[0].request.detail, HasSubstr("by /v1/fine_tuning/jobs"));
  EXPECT_EQ(entries[0].made_job_id, IdOf(101));
}

TEST_F(JobCallsTest, AFileOfAnotherIsNoFile) {
  const std::string file = PutFile("hello", "bob");
  const http::Response response = Create(file);
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(JsonOf(response)["error"]["param"], "training_file");
  const std::string mine = PutFile("mine");
  EXPECT_EQ(JsonOf(Create(mine, ", \"validation_file\": \"" + file +
                                    "\""))["error"]["param"],
            "validation_file");
  EXPECT_THAT(submitted_, IsEmpty());
}

TEST_F(JobCallsTest, WhatSubmitSaysIsSaid) {
  const std::string file = PutFile("hello");
  manager_.OnSubmit([](const jobs::SubmitRequest&) {
    return absl::StatusOr<jobs::SubmitResult>(
        absl::ResourceExhaustedError("you have 5 queued jobs"));
  });
  const http::Response response = Create(file);
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(MessageOf(response), "you have 5 queued jobs");
  EXPECT_EQ(Create(file, ", \"oops\": 1").status, 400);
  EXPECT_EQ(
      Ask(RequestOf("POST", "/v1/fine_tuning/jobs"), std::string(100'000, '['))
          .status,
      400);
  EXPECT_EQ(Ask(RequestOf("POST", "/v1/fine_tuning/jobs")).status, 400);
}

TEST_F(JobCallsTest, ASecondTryFindsTheJobOfTheFirst) {
  const std::string file = PutFile("hello");
  const std::string id = JsonOf(Create(file))["id"];
  http::Request again = RequestOf("POST", "/v1/fine_tuning/jobs");
  // FakeManager's List takes no notice of the filter; the filter is checked
  // below.
  again.retry_count = "1";
  EXPECT_EQ(JsonOf(Create(file, "", again))["id"], id);
  EXPECT_THAT(submitted_, SizeIs(1));
  const jobs::ListFilter filter = manager_.last_filter();
  EXPECT_EQ(filter.owner, "ada");
  EXPECT_EQ(filter.labels.at("openai.request"),
            submitted_[0].labels.at("openai.request"));
  // Another request by the same user is another job, and so is one that is no
  // second try.
  again.retry_count = "0";
  EXPECT_NE(JsonOf(Create(file, "", again))["id"], id);
  EXPECT_NE(JsonOf(Create(file, ", \"seed\": 3"))["id"], id);
  EXPECT_NE(submitted_[0].labels.at("openai.request"),
            submitted_[2].labels.at("openai.request"));
}

TEST_F(JobCallsTest, AnOldJobIsNotThatOfASecondTry) {
  const std::string file = PutFile("hello");
  jobs::Job old = JobOf(5);
  old.create_time = absl::Now() - absl::Minutes(11);
  manager_.Put(old);
  http::Request again = RequestOf("POST", "/v1/fine_tuning/jobs");
  again.retry_count = "2";
  EXPECT_EQ(JsonOf(Create(file, "", again))["id"], IdOf(101));
}

TEST_F(JobCallsTest, AKeyIsSubmits) {
  http::Request keyed = RequestOf("POST", "/v1/fine_tuning/jobs");
  keyed.idempotency_key = "k1";
  Create(PutFile("hello"), "", keyed);
  EXPECT_EQ(submitted_.at(0).idempotency_key, "k1");
  keyed.idempotency_key = std::string(1000, 'k');
  EXPECT_EQ(Create(PutFile("hello"), "", keyed).status, 400);
}

TEST_F(JobCallsTest, GoesOnFromAResult) {
  jobs::Job prior = JobOf(7, jobs::State::kSucceeded);
  prior.spec_json = R"({"model": "org/base", "lora": {"r": 4}})";
  manager_.Put(prior);
  const std::string file = PutFile("hello");
  const auto create = [&] {
    return Ask(RequestOf("POST", "/v1/fine_tuning/jobs"),
               "{\"model\": \"job:" + IdOf(7) + "\", \"training_file\": \"" +
                   file + "\"}");
  };
  EXPECT_EQ(create().status, 200);
  const auto spec = nlohmann::json::parse(submitted_.at(0).spec_json);
  EXPECT_EQ(spec["adapter"], "job:" + IdOf(7));
  EXPECT_EQ(spec["model"], "org/base");
  EXPECT_EQ(spec["lora"]["r"], 4);
  // Where jobs are private, not from another's.
  prior.owner = "bob";
  manager_.Put(prior);
  door_.emplace(MakeBackend(/*private_jobs=*/true));
  const http::Response refused = create();
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(MessageOf(refused), HasSubstr("is not yours"));
  manager_.Erase(IdOf(7));
  EXPECT_EQ(create().status, 400);
}

TEST_F(JobCallsTest, ListsTheCallersJobs) {
  for (int i = 1; i <= 4; ++i) manager_.Put(JobOf(i));
  const auto page = JsonOf(Get("/v1/fine_tuning/jobs?limit=3"));
  EXPECT_EQ(page["has_more"], true);
  ASSERT_EQ(page["data"].size(), 3u);
  EXPECT_EQ(page["data"][0]["id"], IdOf(4));
  EXPECT_EQ(manager_.last_filter().owner, "ada");
  const auto rest = JsonOf(Get("/v1/fine_tuning/jobs?limit=3&after=" + IdOf(2) +
                               "&metadata[team]=nlp"));
  EXPECT_EQ(rest["has_more"], false);
  ASSERT_EQ(rest["data"].size(), 1u);
  EXPECT_THAT(manager_.last_filter().labels, ElementsAre(Pair("team", "nlp")));
}

TEST_F(JobCallsTest, GetAndCancelObeyTheRules) {
  manager_.Put(JobOf(7, jobs::State::kRunning));
  EXPECT_EQ(JsonOf(Get(JobPath(7)))["status"], "running");
  EXPECT_EQ(Get(JobPath(7), "bob").status, 200);
  EXPECT_EQ(Get(JobPath(8)).status, 404);
  EXPECT_EQ(Get("/v1/fine_tuning/jobs/nonsense").status, 404);
  const auto cancel = [&](const std::string& user) {
    return Ask(RequestOf("POST", JobPath(7, "/cancel"), user)).status;
  };
  EXPECT_EQ(cancel("bob"), 403);
  EXPECT_EQ(cancel("eve"), 403);
  EXPECT_FALSE(manager_.Get(IdOf(7))->cancel_requested);
  EXPECT_EQ(cancel("ada"), 200);
  EXPECT_TRUE(manager_.Get(IdOf(7))->cancel_requested);
  const auto entries = audit_.Take();
  ASSERT_THAT(entries, SizeIs(3));
  EXPECT_EQ(entries[0].request.caller.user, "bob");
  EXPECT_TRUE(entries[0].refused);
}

TEST_F(JobCallsTest, APrivateJobShowsItsPublicPart) {
  jobs::Job job = JobOf(7, jobs::State::kRunning);
  job.name = "secret";
  manager_.Put(job);
  manager_.AppendProgress(job.id, 1);
  door_.emplace(MakeBackend(/*private_jobs=*/true));
  const http::Response shown = Get(JobPath(7), "bob");
  EXPECT_EQ(shown.status, 200);
  EXPECT_THAT(shown.body, Not(HasSubstr("secret")));
  EXPECT_THAT(shown.body, Not(HasSubstr("org/base")));
  EXPECT_EQ(Get(JobPath(7, "/events"), "bob").status, 403);
  EXPECT_EQ(Get(JobPath(7, "/checkpoints"), "bob").status, 403);
  EXPECT_EQ(Get(JobPath(7, "/events")).status, 200);
}

TEST_F(JobCallsTest, EventsComeNewestFirst) {
  manager_.Put(JobOf(7, jobs::State::kRunning));
  for (int i = 1; i <= 2500; ++i) manager_.AppendProgress(IdOf(7), i);
  auto page = JsonOf(Get(JobPath(7, "/events?limit=2")));
  EXPECT_EQ(page["has_more"], true);
  ASSERT_EQ(page["data"].size(), 2u);
  EXPECT_EQ(page["data"][0]["id"], "ftevent-" + IdOf(7) + "-2500");
  EXPECT_EQ(page["data"][0]["data"]["step"], 2500);
  // As Python's client walks through all of them.
  std::string after;
  int seen = 0;
  do {
    page = JsonOf(Get(JobPath(
        7, "/events?limit=100" + (after.empty() ? "" : "&after=" + after))));
    seen += static_cast<int>(page["data"].size());
    after = page["data"].back()["id"];
  } while (page["has_more"] == true);
  EXPECT_EQ(seen, 2500);
  EXPECT_EQ(after, "ftevent-" + IdOf(7) + "-1");
  for (const std::string& wrong :
       {std::string("x"), "ftevent-" + IdOf(8) + "-5",
        "ftevent-" + IdOf(7) + "--5", "ftevent-" + IdOf(7) + "-05",
        "ftevent-" + IdOf(7) + "-99999999999999999999"}) {
    EXPECT_EQ(Get(JobPath(7, "/events?after=" + wrong)).status, 400) << wrong;
  }
  EXPECT_THAT(JsonOf(Get(JobPath(7, "/events?after=ftevent-" + IdOf(7) +
                                        "-9000000000000000000")))["data"],
              SizeIs(20));
  EXPECT_EQ(Get(JobPath(8, "/events")).status, 404);
}

TEST_F(JobCallsTest, CheckpointsComeNewestFirst) {
  manager_.Put(JobOf(7, jobs::State::kRunning));
  for (int step : {4, 8, 12}) {
    manager_.AddCheckpoint(IdOf(7), {{step, "/c", 5, 0.5}, {}});
  }
  auto page = JsonOf(Get(JobPath(7, "/checkpoints?limit=2")));
  EXPECT_EQ(page["has_more"], true);
  EXPECT_EQ(page["data"][0]["step_number"], 12);
  page = JsonOf(
      Get(JobPath(7, "/checkpoints?limit=2&after=ftckpt-" + IdOf(7) + "-8")));
  EXPECT_EQ(page["has_more"], false);
  ASSERT_THAT(page["data"], SizeIs(1));
  EXPECT_EQ(page["data"][0]["step_number"], 4);
  EXPECT_EQ(Get(JobPath(7, "/checkpoints?after=x")).status, 400);
  EXPECT_EQ(Get(JobPath(8, "/checkpoints")).status, 404);
}

TEST_F(JobCallsTest, AFirstTryUnderWayIsAwaited) {
  const std::string file = PutFile("hello");
  absl::Notification begun, go;
  manager_.OnSubmit([&](const jobs::SubmitRequest& request) {
    begun.Notify();
    go.WaitForNotification();
    submitted_.push_back(request);
    jobs::Job job = JobOf(50);
    job.create_time = absl::Now();
    manager_.Put(job);
    return absl::StatusOr<jobs::SubmitResult>({job, false});
  });
  std::thread first([&] { EXPECT_EQ(Create(file).status, 200); });
  begun.WaitForNotification();
  std::thread second([&] {
    http::Request again = RequestOf("POST", "/v1/fine_tuning/jobs");
    again.retry_count = "1";
    EXPECT_EQ(JsonOf(Create(file, "", again))["id"], IdOf(50));
  });
  absl::SleepFor(absl::Milliseconds(100));
  go.Notify();
  first.join();
  second.join();
  EXPECT_THAT(submitted_, SizeIs(1));
}

}  // namespace
}  // namespace mpsd::openai
