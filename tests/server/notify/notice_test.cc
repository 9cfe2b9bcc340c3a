// SPDX-License-Identifier: Apache-2.0
#include "server/notify/notice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "tests/core/status_matchers.h"

namespace mpsd::notify {
namespace {

using nlohmann::json;

const Sender kSender{"mac.local", "0.1.0"};
const absl::Time kTime = absl::FromUnixMillis(1767225600250);

jobs::EndedJob End(jobs::State state, const std::string& message = "") {
  return {7, "01M826Q168STW4SN2QMA5WKG3V", state, kTime, message};
}

jobs::Job TheJob() {
  jobs::Job job;
  job.name = "night run";
  job.owner = "ada";
  job.attempt = 2;
  job.progress.emplace();
  job.progress->step = 40;
  job.progress->total_steps = 100;
  job.progress->loss = 1.25;
  job.start_time = kTime - absl::Hours(1);
  job.eval_loss_after = 0.5;
  job.train_loss = 0.75;
  job.metrics = {{"accuracy", 0.9}};
  return job;
}

TEST(EndNotice, NamesTheJobItsEndAndTheReason) {
  const Notice notice =
      EndNotice(kSender, End(jobs::State::kFailed, "loss is NaN"), TheJob());
  EXPECT_EQ(notice.id, "01M826Q168STW4SN2QMA5WKG3V-7");
  EXPECT_EQ(notice.event, "failed");
  EXPECT_EQ(notice.time, kTime);
  EXPECT_EQ(notice.title, "mpsd: job failed");
  EXPECT_EQ(notice.text,
            "Job night run failed at step 40 of 100, loss 1.25: loss is NaN");
  EXPECT_EQ(json::parse(notice.body), json::parse(R"({
      "id": "01M826Q168STW4SN2QMA5WKG3V-7", "event": "failed",
      "time": "2026-01-01T00:00:00.250Z", "host": "mac.local",
      "version": "0.1.0",
      "text": "Job night run failed at step 40 of 100, loss 1.25: loss is NaN",
      "job": {"id": "01M826Q168STW4SN2QMA5WKG3V", "name": "night run",
              "owner": "ada", "state": "FAILED", "attempt": 2,
              "error": "loss is NaN", "step": 40, "planned_steps": 100,
              "loss": 1.25, "train_loss": 0.75, "eval_loss": 0.5,
              "metrics": {"accuracy": 0.9},
              "start_time": "2025-12-31T23:00:00.250Z"}})"));
}

// A row that cannot be read, or whose job was tried again meanwhile.
TEST(EndNotice, StateAndErrorAreThoseOfTheEnd) {
  jobs::Job job;
  job.state = jobs::State::kQueued;
  job.message = "queued again";
  const Notice notice =
      EndNotice(kSender, End(jobs::State::kCancelled, "cancelled"), job);
  EXPECT_EQ(notice.text, "Job 01M826Q168STW4SN2QMA5WKG3V cancelled");
  const json body = json::parse(notice.body);
  EXPECT_EQ(body["job"]["state"], "CANCELLED");
  EXPECT_EQ(body["job"]["error"], "cancelled");
  EXPECT_FALSE(body["job"].contains("step"));
}

TEST(EndNotice, HostileTextsStayText) {
  jobs::Job job = TheJob();
  job.name = "-e \"\x1b[2J\n\xff</b>" + std::string(500, 'x');
  job.progress->loss = std::numeric_limits<double>::quiet_NaN();
  const std::string message = "\xff\n" + std::string(9000, 'y');
  const Notice notice =
      EndNotice(kSender, End(jobs::State::kFailed, message), job);
  EXPECT_TRUE(base::IsPrintable(notice.text));
  EXPECT_LE(notice.text.size(), 500u);
  EXPECT_TRUE(notice.text.starts_with("Job "));
  const json body = json::parse(notice.body);
  EXPECT_TRUE(body["job"]["loss"].is_null());
  EXPECT_THAT(body["job"]["name"].get<std::string>(), HasSubstr("\x1b[2J\n"));
  EXPECT_THAT(notice.body, Not(HasSubstr("\n")));
}

// osascript and others take a text that begins with a dash for an option.
TEST(Notices, NoTitleAndNoTextBeginsWithADash) {
  jobs::Job job;
  job.name = "--help";
  for (const Notice& notice :
       {EndNotice(kSender, End(jobs::State::kFailed, "-"), job),
        TestNotice(kSender, kTime)}) {
    EXPECT_TRUE(notice.title.starts_with("mpsd: ")) << notice.title;
    EXPECT_FALSE(notice.text.starts_with("-")) << notice.text;
  }
}

}  // namespace
}  // namespace mpsd::notify
