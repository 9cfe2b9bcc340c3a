// SPDX-License-Identifier: Apache-2.0
// The worker's side of the wire, with this test as the daemon.
#include "core/worker/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/limits.h"
#include "core/base/line_channel.h"
#include "core/base/printable.h"
#include "core/base/read_roots.h"
#include "core/data/shown.h"
#include "core/report/stage_names.h"
#include "core/wire/messages.h"
#include "core/worker/read_limits.h"
#include "core/worker/run_job.h"
#include "tests/core/job_folder.h"

namespace mpsd::worker {
namespace {

using testing_support::JobFolder;

class SessionTest : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    daemon_ = std::make_unique<base::LineChannel>(ends[0]);
    worker_ =
        std::thread([this, fd = ends[1]] { code_ = RunSession(fd, log_); });
  }
  // What a Start limits is the process': lifted for the next test.
  void TearDown() override {
    daemon_.reset();
    if (worker_.joinable()) worker_.join();
    base::LimitReads(base::ReadRoots({"/"}));
    data::ShowContents(true);
  }
  void Send(const wire::ToWorker& message) {
    ASSERT_TRUE(daemon_->Send(wire::Encode(message)).ok());
  }
  void Start(const JobFolder& folder) {
    Send(wire::Start{"job", folder.Write().string(),
                     (folder.path() / "out").string()});
  }
  // Messages until the stream ends, `on_message` seeing each.
  std::vector<wire::FromWorker> Follow(
      const std::function<void(const wire::FromWorker&)>& on_message =
          nullptr) {
    std::vector<wire::FromWorker> messages;
    while (true) {
      auto line = daemon_->Receive(absl::Seconds(60));
      EXPECT_TRUE(line.ok()) << line.status();
      if (!line.ok() || !line->has_value()) break;
      auto message = wire::DecodeFromWorker(**line);
      EXPECT_TRUE(message.ok()) << **line;
      if (!message.ok()) break;
      messages.push_back(*message);
      if (on_message) on_message(*message);
    }
    worker_.join();
    return messages;
  }
  std::unique_ptr<base::LineChannel> daemon_;
  std::thread worker_;
  std::ostringstream log_;
  int code_ = -1;
};

TEST_F(SessionTest, HelloThenTheRunThenDone) {
  const JobFolder folder("session_done");
  Start(folder);
  const auto messages = Follow();
  EXPECT_EQ(code_, 0);
  ASSERT_TRUE(std::holds_alternative<wire::Hello>(messages.front()));
  EXPECT_EQ(std::get<wire::Hello>(messages.front()).version,
            wire::kProtocolVersion);
  const auto& done = std::get<wire::Done>(messages.back());
  EXPECT_EQ(done.steps, 8);
  EXPECT_TRUE(std::filesystem::exists(done.output_path));
  int64_t steps = 0;
  for (const auto& message : messages) {
    if (const auto* p = std::get_if<wire::Progress>(&message)) {
      EXPECT_EQ(p->step, ++steps);
      EXPECT_EQ(p->device, "cpu");
      EXPECT_GT(*p->memory.footprint_bytes, 0);
    }
  }
  EXPECT_EQ(steps, 8);
  EXPECT_THAT(log_.str(), testing::HasSubstr("step 8/8"));
}

// mpsd counts a worker's time by what the worker announced last.
TEST_F(SessionTest, AnnouncesItsDeviceAndWhatItSaves) {
  JobFolder folder("session_announces");
  folder.training()["save_steps"] = 1;
  Start(folder);
  std::vector<std::string> devices, reports;
  for (const auto& message : Follow()) {
    if (const auto* beat = std::get_if<wire::Heartbeat>(&message)) {
      if (!beat->device.empty()) devices.push_back(beat->device);
      if (!beat->stage.empty()) reports.push_back(beat->stage);
    } else if (std::holds_alternative<wire::Checkpointed>(message)) {
      ASSERT_FALSE(reports.empty());
      EXPECT_EQ(reports.back(), report::kStageSaving);
      reports.push_back("saved");
    } else if (std::holds_alternative<wire::Progress>(message)) {
      EXPECT_EQ(devices, std::vector<std::string>{"cpu"});
      reports.push_back("step");
    }
  }
  EXPECT_EQ(devices, std::vector<std::string>{"cpu"});
  EXPECT_EQ(std::count(reports.begin(), reports.end(), "saved"), 8);
  EXPECT_EQ(reports.back(), report::kStageSaving) << "the result";
}

TEST_F(SessionTest, AFailureIsToldShortAndPrintable) {
  JobFolder folder("session_long");
  folder.job()["model"] =
      "/no/such/\x1b[2J\nmodel/" + std::string(5 << 20, 'x');
  Start(folder);
  const auto messages = Follow();
  EXPECT_EQ(code_, 1);
  const auto* failed = std::get_if<wire::Failed>(&messages.back());
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->message.size(), limits::kMessageBytes);
  EXPECT_THAT(failed->message, testing::HasSubstr("/no/such/\\x1b[2J\nmodel"));
  EXPECT_LT(log_.str().size(), 2 * limits::kMessageBytes);
  EXPECT_TRUE(base::IsPrintable(log_.str(), base::Breaks::kKeep));
  EXPECT_EQ(log_.str().find("\nmodel"), std::string::npos) << "is indented";
}

TEST_F(SessionTest, AnUnknownKindOfJobIsNamedBesideTheKnownOnes) {
  ASSERT_TRUE(daemon_
                  ->Send(R"({"type":"start","job_id":"job","spec_path":"/j",)"
                         R"("output_dir":"/o","kind":"sweep"})")
                  .ok());
  Follow();
  EXPECT_EQ(code_, 2);
  EXPECT_THAT(log_.str(), testing::HasSubstr("expected Start on fd "));
  EXPECT_THAT(log_.str(),
              testing::AllOf(testing::HasSubstr(
                                 "field 'kind' must be one of training, probe"),
                             testing::HasSubstr("not 'sweep'")));
}

TEST_F(SessionTest, ReadsNothingOutsideOfWhatItMay) {
  const JobFolder folder("session_roots");
  const std::filesystem::path model =
      folder.path().parent_path() / "session_roots_model";
  std::filesystem::remove_all(model);
  std::filesystem::copy(testing_support::Golden("smollm", "model"), model);
  JobFolder job = folder;
  job.job()["model"] = model.string();
  // The weights are a link out of the folder.
  std::filesystem::create_symlink(
      testing_support::Golden("smollm", "model") / "model.safetensors",
      model / "link");
  std::filesystem::rename(model / "link", model / "model.safetensors");
  Send(wire::Start{"job",
                   job.Write().string(),
                   (job.path() / "out").string(),
                   {job.path().string(), model.string()}});
  const auto messages = Follow();
  const auto* failed = std::get_if<wire::Failed>(&messages.back());
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->kind, wire::FailureKind::kRejected);
  EXPECT_THAT(failed->message,
              testing::HasSubstr((model / "model.safetensors").string() +
                                 ": lies outside of the folders"));
}

TEST_F(SessionTest, WhatItMayReadIsEnough) {
  const JobFolder folder("session_enough");
  Send(wire::Start{"job",
                   folder.Write().string(),
                   (folder.path() / "out").string(),
                   {folder.path().string(),
                    testing_support::Golden("smollm", "model").string()}});
  const auto messages = Follow();
  EXPECT_TRUE(std::holds_alternative<wire::Done>(messages.back()))
      << log_.str();
}

TEST_F(SessionTest, DataThatWereNotUploadedAreNotQuoted) {
  const JobFolder folder("session_quotes");
  std::filesystem::create_directories(folder.path() / "inputs");
  for (const char* train : {"train.jsonl", "inputs/train.jsonl"}) {
    JobFolder job = folder;
    const auto path = folder.path() / train;
    std::ofstream(path) << R"({"password of the owner": 1})"
                        << "\n";
    job.job()["dataset"] = {{"train", path.string()}, {"eval", path.string()}};
    wire::Start start{"job", job.Write().string(),
                      (folder.path() / "out").string()};
    LimitToStart(start);
    testing_support::RecordingObserver observer;
    const Outcome outcome = RunJob(start.spec_path, start.output_dir, observer);
    const auto* failed = std::get_if<wire::Failed>(&outcome);
    ASSERT_NE(failed, nullptr);
    const bool uploaded = train[0] == 'i';
    EXPECT_EQ(failed->message.find("password") != std::string::npos, uploaded)
        << failed->message;
    EXPECT_THAT(failed->message, testing::HasSubstr(path.string() + ":1: "));
  }
}

// One report, two codecs: neither drops what the other has.
TEST_F(SessionTest, AStepsLineInTheRunFolderIsWhatTheDaemonHears) {
  const JobFolder folder("session_fields");
  Start(folder);
  std::vector<nlohmann::json> heard, written;
  for (const auto& message : Follow()) {
    if (!std::holds_alternative<wire::Progress>(message)) continue;
    heard.push_back(nlohmann::json::parse(wire::Encode(message)));
    heard.back().erase("type");
  }
  std::ifstream file(folder.path() / "out" / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    written.push_back(nlohmann::json::parse(line));
  }
  ASSERT_EQ(heard.size(), 8u);
  EXPECT_EQ(written, heard);
}

TEST_F(SessionTest, StopCheckpointsAndSaysWhere) {
  JobFolder folder("session_stop");
  folder.training()["max_steps"] = 100'000;
  Start(folder);
  bool asked = false;
  const auto messages = Follow([&](const wire::FromWorker& message) {
    const auto* p = std::get_if<wire::Progress>(&message);
    if (p == nullptr || p->step < 2 || asked) return;
    asked = true;
    Send(wire::Stop{wire::StopReason::kPreempt});
  });
  EXPECT_EQ(code_, 0);
  const auto& stopped = std::get<wire::Stopped>(messages.back());
  EXPECT_EQ(stopped.reason, wire::StopReason::kPreempt);
  EXPECT_TRUE(
      std::filesystem::exists(folder.path() / "out/checkpoints" /
                              ("step-" + std::to_string(stopped.step))));
}

TEST_F(SessionTest, ADaemonThatDiesIsAsGoodAsAStop) {
  JobFolder folder("session_eof");
  folder.training()["max_steps"] = 100'000;
  Start(folder);
  while (true) {
    auto line = daemon_->Receive(absl::Seconds(60));
    ASSERT_TRUE(line.ok() && line->has_value());
    auto message = wire::DecodeFromWorker(**line);
    const auto* p = std::get_if<wire::Progress>(&*message);
    if (p != nullptr && p->step >= 2) break;
  }
  daemon_.reset();
  worker_.join();
  EXPECT_EQ(code_, 0);
  EXPECT_THAT(log_.str(), testing::HasSubstr("checkpoint "));
}

TEST_F(SessionTest, PauseHoldsBetweenStepsUntilResume) {
  JobFolder folder("session_pause");
  folder.training()["max_steps"] = 100'000;
  Start(folder);
  std::optional<int64_t> held_at, resumed_at, next;
  bool asked = false;
  Follow([&](const wire::FromWorker& message) {
    if (const auto* held = std::get_if<wire::Held>(&message)) {
      held_at = held->step;
    } else if (const auto* beat = std::get_if<wire::Heartbeat>(&message)) {
      if (held_at && !resumed_at && beat->stage.empty()) Send(wire::Resume{});
    } else if (const auto* resumed = std::get_if<wire::Resumed>(&message)) {
      resumed_at = resumed->step;
    } else if (const auto* step = std::get_if<wire::Progress>(&message)) {
      EXPECT_EQ(held_at.has_value(), resumed_at.has_value()) << "while it held";
      if (!std::exchange(asked, true)) Send(wire::Pause{});
      if (!resumed_at || next) return;
      next = step->step;
      Send(wire::Stop{wire::StopReason::kCancel});
    }
  });
  EXPECT_EQ(code_, 0);
  ASSERT_TRUE(held_at && resumed_at && next);
  EXPECT_GE(*held_at, 1);
  EXPECT_EQ(*resumed_at, *held_at);
  EXPECT_EQ(*next, *held_at + 1);
}

// A step that would go on for long.
JobFolder OneLongStep(const std::string& name) {
  JobFolder folder(name);
  folder.WriteRows("train.jsonl", 20'000);
  folder.job()["dataset"].erase("eval");
  folder.training().erase("eval_steps");
  folder.training()["max_steps"] = 1;
  folder.training()["per_device_train_batch_size"] = 1;
  folder.training()["gradient_accumulation_steps"] = 20'000;
  return folder;
}

TEST_F(SessionTest, AStepOfManyMicroBatchesBeatsAndIsHeldWithinIt) {
  const JobFolder folder = OneLongStep("session_long_pause");
  Start(folder);
  int beats = 0;
  bool held = false;
  const auto messages = Follow([&](const wire::FromWorker& message) {
    if (const auto* beat = std::get_if<wire::Heartbeat>(&message)) {
      if (!beat->stage.empty()) {
        beats = 0;
      } else if (!held && ++beats == 3) {
        Send(wire::Pause{});
      }
    } else if (const auto* answer = std::get_if<wire::Held>(&message)) {
      held = true;
      EXPECT_EQ(answer->step, 0);
      Send(wire::Resume{});
    } else if (std::holds_alternative<wire::Resumed>(message)) {
      Send(wire::Stop{wire::StopReason::kPreempt});
    }
  });
  EXPECT_EQ(code_, 0);
  EXPECT_TRUE(held);
  EXPECT_EQ(std::get<wire::Stopped>(messages.back()).step, 0);
  for (const auto& message : messages) {
    EXPECT_FALSE(std::holds_alternative<wire::Progress>(message));
  }
}

TEST_F(SessionTest, AHeldRunStopsAtOnce) {
  JobFolder folder("session_pause_stop");
  folder.training()["max_steps"] = 100'000;
  Start(folder);
  bool asked = false;
  const auto messages = Follow([&](const wire::FromWorker& message) {
    if (std::holds_alternative<wire::Progress>(message) && !asked) {
      asked = true;
      Send(wire::Pause{});
    } else if (std::holds_alternative<wire::Held>(message)) {
      Send(wire::Stop{wire::StopReason::kPreempt});
    }
  });
  EXPECT_EQ(code_, 0);
  const auto& stopped = std::get<wire::Stopped>(messages.back());
  EXPECT_GE(stopped.step, 1);
  for (const auto& message : messages) {
    EXPECT_FALSE(std::holds_alternative<wire::Resumed>(message));
  }
}

TEST_F(SessionTest, CancelWritesNoCheckpoint) {
  JobFolder folder("session_cancel");
  folder.training()["max_steps"] = 100'000;
  folder.training()["save_steps"] = 0;
  Start(folder);
  bool asked = false;
  const auto messages = Follow([&](const wire::FromWorker& message) {
    if (!std::holds_alternative<wire::Progress>(message) || asked) return;
    asked = true;
    Send(wire::Stop{wire::StopReason::kCancel});
  });
  EXPECT_EQ(std::get<wire::Stopped>(messages.back()).reason,
            wire::StopReason::kCancel);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() / "out" / "checkpoints"));
}

TEST_F(SessionTest, TheUsersErrorComesBackAsFailed) {
  const JobFolder folder("session_bad");
  std::ofstream(folder.path() / "train.jsonl") << "{}\n";
  Start(folder);
  const auto messages = Follow();
  EXPECT_EQ(code_, 1);
  const auto& failed = std::get<wire::Failed>(messages.back());
  EXPECT_EQ(failed.kind, wire::FailureKind::kRejected);
  EXPECT_THAT(failed.message, testing::HasSubstr("train.jsonl:1"));
}

TEST_F(SessionTest, NonsenseInsteadOfStartEndsTheWorker) {
  ASSERT_TRUE(daemon_->Send("hello?").ok());
  Follow();
  EXPECT_EQ(code_, 2);
}

}  // namespace
}  // namespace mpsd::worker
