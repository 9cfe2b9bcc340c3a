// SPDX-License-Identifier: Apache-2.0
#include "core/worker/session.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <new>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/line_channel.h"
#include "core/base/text.h"
#include "core/data/row_errors.h"
#include "core/report/report.h"
#include "core/wire/messages.h"
#include "core/worker/process.h"
#include "core/worker/run_job.h"
#include "tests/core/job_folder.h"

// The worker's side of the wire, with this test as the daemon.

namespace mpsd::worker {
namespace {

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
  EXPECT_EQ(std::get<wire::Hello>(messages.front()).version,
            wire::kProtocolVersion);
  const auto& done = std::get<wire::Done>(messages.back());
  EXPECT_EQ(done.steps, 8);
  EXPECT_TRUE(fs::exists(done.output_path));
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

TEST_F(SessionTest, AFailureIsReportedShortAndPrintable) {
  JobFolder folder("session_long");
  folder.job()["model"] =
      "/no/such/\x1b[2J\nmodel/" + std::string(5 << 20, 'x');
  Start(folder);
  const auto messages = Follow();
  EXPECT_EQ(code_, 1);
  const auto& failed = std::get<wire::Failed>(messages.back());
  EXPECT_EQ(failed.message.size(), limits::kMessageBytes);
  EXPECT_THAT(failed.message, testing::HasSubstr("/no/such/\\x1b[2J\nmodel"));
  EXPECT_LT(log_.str().size(), 2 * limits::kMessageBytes);
  EXPECT_TRUE(base::IsPrintable(log_.str(), base::Breaks::kKeep));
  EXPECT_EQ(log_.str().find("\nmodel"), std::string::npos) << "is indented";
}

TEST_F(SessionTest, ReadsNothingOutsideOfWhatItMay) {
  const JobFolder folder("session_roots");
  const fs::path model = folder.path().parent_path() / "session_roots_model";
  fs::remove_all(model);
  fs::copy(Golden("smollm", "model"), model);
  JobFolder job = folder;
  job.job()["model"] = model.string();
  // The weights are a link out of the folder.
  fs::create_symlink(Golden("smollm", "model") / "model.safetensors",
                     model / "link");
  fs::rename(model / "link", model / "model.safetensors");
  Send(wire::Start{"job",
                   job.Write().string(),
                   (job.path() / "out").string(),
                   {job.path().string(), model.string()}});
  const auto messages = Follow();
  const auto& failed = std::get<wire::Failed>(messages.back());
  EXPECT_EQ(failed.kind, wire::FailureKind::kRejected);
  EXPECT_THAT(failed.message,
              testing::HasSubstr((model / "model.safetensors").string() +
                                 ": is outside the folders"));
}

TEST_F(SessionTest, DataThatWereNotUploadedAreNotQuoted) {
  const JobFolder folder("session_quotes");
  fs::create_directories(folder.path() / "inputs");
  for (const char* train : {"train.jsonl", "inputs/train.jsonl"}) {
    JobFolder job = folder;
    const auto path = folder.path() / train;
    std::ofstream(path) << R"({"password of the owner": 1})"
                        << "\n";
    job.job()["dataset"] = {{"train", path.string()}, {"eval", path.string()}};
    wire::Start start{"job", job.Write().string(),
                      (folder.path() / "out").string()};
    LimitToStart(start);
    RecordingObserver observer;
    const Outcome outcome = RunJob(start.spec_path, start.output_dir, observer);
    const auto& failed = std::get<wire::Failed>(outcome);
    const bool uploaded = train[0] == 'i';
    EXPECT_EQ(failed.message.find("password") != std::string::npos, uploaded)
        << failed.message;
    EXPECT_THAT(failed.message, testing::HasSubstr(path.string() + ":1: "));
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
  EXPECT_TRUE(fs::exists(folder.path() / "out/checkpoints" /
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

// A step that would last long.
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

TEST_F(SessionTest, NonsenseInsteadOfStartEndsTheWorker) {
  ASSERT_TRUE(daemon_->Send("hello?").ok());
  Follow();
  EXPECT_EQ(code_, 2);
}

using wire::FailureKind;

TEST(RunJobTest, AnExceptionOfTorchIsAFailureAndNoAbort) {
  struct Throwing : RecordingObserver {
    void OnStep(const report::Progress& report) override {
      TORCH_CHECK_INDEX(!index, "index 9 is out of bounds for dimension 0");
      TORCH_CHECK(report.step < 2, "shape mismatch");
    }
    bool index = false;
  };
  const JobFolder folder("run_job_throw");
  Throwing observer;
  const Outcome outcome =
      RunJob(folder.Write(), folder.path() / "out", observer);
  EXPECT_EQ(std::get<wire::Failed>(outcome).kind, FailureKind::kInternal);
  observer.index = true;
  const Outcome beyond =
      RunJob(folder.path() / "job.json", folder.path() / "other", observer);
  EXPECT_EQ(std::get<wire::Failed>(beyond).kind, FailureKind::kRejected)
      << "the same data would end so again";
  EXPECT_THAT(std::get<wire::Failed>(beyond).message,
              testing::HasSubstr("vocab_size"));
}

// The golden model with an embedding of `rows` rows alone.
void CutTable(const fs::path& model, int64_t rows) {
  fs::copy(Golden("smollm", "model"), model);
  const auto file =
      *tensorfile::SafetensorsFile::Open(model / "model.safetensors");
  tensorfile::NamedTensors tensors;
  for (const auto& [name, entry] : file->entries()) {
    at::Tensor tensor = *file->Load(name);
    if (name == "model.embed_tokens.weight" || name == "lm_head.weight") {
      tensor = tensor.narrow(0, 0, rows).contiguous();
    }
    tensors.emplace_back(name, tensor);
  }
  ASSERT_TRUE(
      tensorfile::WriteSafetensors(model / "model.safetensors", tensors).ok());
  auto config = nlohmann::json::parse(*base::ReadFile(model / "config.json"));
  config["vocab_size"] = rows;
  std::ofstream(model / "config.json") << config.dump();
}

TEST(RunJobTest, TokensBeyondTheModelsTableAreTheUsersErrorBeforeItLoads) {
  JobFolder folder("run_job_beyond");
  const auto model = folder.path() / "model";
  CutTable(model, 8);
  folder.job()["model"] = model.string();
  RecordingObserver observer;
  const Outcome outcome =
      RunJob(folder.Write(), folder.path() / "out", observer);
  const auto& failed = std::get<wire::Failed>(outcome);
  EXPECT_EQ(failed.kind, FailureKind::kRejected);
  EXPECT_THAT(failed.message,
              testing::AllOf(testing::HasSubstr("train.jsonl:1: token "),
                             testing::HasSubstr("rows for 8 tokens")));
  EXPECT_THAT(observer.stages,
              testing::Not(testing::Contains("loading model")));
}

// A pad token that was added to the tokenizer alone: rows are padded with
// another, and the numbers are those of any padding.
TEST(RunJobTest, APadTokenBeyondTheTableIsReplaced) {
  std::vector<std::vector<double>> losses;
  for (const bool beyond : {false, true}) {
    JobFolder folder("run_job_pad");
    const auto model = folder.path() / "model";
    CutTable(model, 99);  // as many as the tokenizer has
    if (beyond) {
      auto tokens = nlohmann::json::parse(
          *base::ReadFile(model / "tokenizer_config.json"));
      tokens["pad_token"] = "[a new pad]";
      std::ofstream(model / "tokenizer_config.json") << tokens;
    }
    folder.job()["model"] = model.string();
    RecordingObserver observer;
    const Outcome outcome =
        RunJob(folder.Write(), folder.path() / "out", observer);
    ASSERT_TRUE(std::holds_alternative<train::RunResult>(outcome))
        << std::get<wire::Failed>(outcome).message;
    losses.emplace_back();
    bool padded = false;
    for (const auto& step : observer.steps) {
      losses.back().push_back(step.loss);
      padded = padded || step.padded_tokens > step.tokens;
    }
    EXPECT_TRUE(padded);
  }
  EXPECT_EQ(losses[0], losses[1]);
}

TEST(FailureOfTest, EveryStatusHasABlamedParty) {
  EXPECT_EQ(FailureOf(absl::InvalidArgumentError("x")).kind,
            FailureKind::kRejected);
  EXPECT_EQ(FailureOf(absl::NotFoundError("x")).kind, FailureKind::kRejected);
  EXPECT_EQ(FailureOf(absl::UnimplementedError("x")).kind,
            FailureKind::kRejected);
  EXPECT_EQ(FailureOf(absl::DataLossError("x")).kind, FailureKind::kNonFinite);
  EXPECT_EQ(FailureOf(absl::InternalError("x")).kind, FailureKind::kInternal);
  // A full disk is the machine's, and worth another try.
  EXPECT_EQ(FailureOf(absl::ResourceExhaustedError("x")).kind,
            FailureKind::kInternal);
}

TEST(FailureOfTest, TheDevicesErrorsHaveAdvice) {
  const wire::Failed missing = FailureOf(std::string(
      "The operator 'aten::x' is not currently implemented for the MPS "
      "device."));
  EXPECT_EQ(missing.kind, FailureKind::kRejected);
  EXPECT_THAT(missing.message, testing::HasSubstr("allow_cpu_fallback"));
  const wire::Failed reset = FailureOf(
      std::string("(0000000b:kIOGPUCommandBufferCallbackErrorPageFault)"));
  EXPECT_EQ(reset.kind, FailureKind::kInternal) << "it may continue";
  EXPECT_THAT(reset.message, testing::HasSubstr("last checkpoint"));
}

// As core/train/step.cc says it: not the numbers' fault, and worth another try.
TEST(FailureOfTest, WorkThatTheDeviceDroppedIsTriedAgain) {
  EXPECT_EQ(FailureOf(absl::DataLossError(
                          "the device dropped work without an error (its "
                          "canary was not written): out of memory or a GPU "
                          "reset"))
                .kind,
            FailureKind::kInternal);
}

TEST(RunJobTest, WarningsGoToTheObserver) {
  struct Listening : RecordingObserver {
    void OnStage(const std::string&, double) override {
      for (int i = 0; i < 2; ++i) TORCH_WARN("a warning of torch");
      TORCH_WARN_ONCE(
          "The operator 'aten::made_up' is not currently supported on the MPS "
          "backend and will fall back to run on the CPU.");
    }
  };
  const JobFolder folder("run_job_warnings");
  Listening observer;
  RunJob(folder.Write(), folder.path() / "out", observer);
  EXPECT_THAT(observer.warnings(), testing::ElementsAre("a warning of torch"));
  ASSERT_FALSE(observer.steps.empty());
  EXPECT_GT(observer.steps.back().cpu_fallback_ops.at("aten::made_up"), 1);
  const auto manifest = nlohmann::json::parse(
      *base::ReadFile(folder.path() / "out" / "run.json"));
  EXPECT_GT(manifest["cpu_fallback_ops"]["aten::made_up"], 1);
  EXPECT_EQ(manifest["warnings"],
            nlohmann::json::array({"a warning of torch"}));
}

TEST(FailureOfTest, KeepsTheErrnoThatItCameOf) {
  const wire::Failed full = FailureOf(base::ErrnoStatus(ENOSPC, "/out/x"));
  EXPECT_EQ(full.error, ENOSPC);
  EXPECT_EQ(full.kind, FailureKind::kInternal);
  EXPECT_FALSE(FailureOf(absl::InvalidArgumentError("row 3")).error);
}

// MPS' allocator throws plain errors, CUDA's a type of its own, the CPU's a
// plain one again, and the host's standard library another.
TEST(AttemptTest, EveryWayOfRunningOutOfMemoryIsAStatus) {
  const std::function<void()> ways[] = {
      [] {
        TORCH_CHECK(false,
                    "MPS backend out of memory (MPS allocated: 4.00 GB, other "
                    "allocations: 1.00 GB, max allowed: 5.00 GB). Tried to "
                    "allocate 1.00 GB on private pool.");
      },
      [] { TORCH_CHECK(false, "Invalid buffer size: 90.00 GB"); },
      [] {
        TORCH_CHECK_WITH(OutOfMemoryError, false,
                         "CUDA out of memory. Tried to allocate 2.00 GiB.");
      },
      [] { at::empty({int64_t{1} << 60}, at::kByte); },
      [] { throw std::bad_alloc(); },
      [] { throw std::runtime_error("CUDA error: out of memory"); },
  };
  for (const auto& way : ways) {
    const absl::Status status = Attempt(way);
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_FALSE(status.message().empty());
  }
}

TEST(AttemptTest, OtherExceptionsPassThrough) {
  EXPECT_THROW(Attempt([] { at::zeros({2}).view({3}); }).IgnoreError(),
               c10::Error);
  EXPECT_THROW(Attempt([] { throw std::logic_error("x"); }).IgnoreError(),
               std::logic_error);
}

// Whether `check` holds in a process of its own, which a limit may then bind.
bool Holds(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) _exit(check() ? 0 : 1);
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

rlimit LimitOf(decltype(RLIMIT_CORE) resource) {
  rlimit limit{};
  getrlimit(resource, &limit);
  return limit;
}

TEST(Cell, ALowerBoundStays) {
  EXPECT_TRUE(Holds([] {
    const rlimit lower{64, 128};
    setrlimit(RLIMIT_NOFILE, &lower);
    EnterCell();
    const rlimit limit = LimitOf(RLIMIT_NOFILE);
    return limit.rlim_cur == 64 && limit.rlim_max == 128;
  }));
}

}  // namespace
}  // namespace mpsd::worker
