// SPDX-License-Identifier: Apache-2.0
#include "server/daemon.h"

#include <gmock/gmock.h>

#include <functional>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/text.h"
#include "server/rpc/listener.h"
#include "tests/server/daemon_fixture.h"
#include "tests/server/http/client.h"

// The whole daemon with the fake worker, in this process.

// What a client may send to kill, starve or deafen a daemon: the whole daemon
// refuses it and lives.

namespace mpsd {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(60);

class DaemonTest : public DaemonFixture {
 protected:
  DaemonTest() {
    config_.stop_grace = kPatience;
    config_.retry_backoff = absl::Milliseconds(1);
    config_.model_roots = config_.data_roots = {"/"};
  }
  std::string SubmitMode(const std::string& mode, int steps = 5) {
    v1::Job job;
    const grpc::Status status =
        Submit(Spec("fake:" + mode, R"(, "training": {"max_steps": )" +
                                        std::to_string(steps) + "}"),
               job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job.id();
  }
  v1::Job AwaitState(const std::string& id, v1::JobState state) {
    EXPECT_TRUE(Eventually([&] { return Get(id).state() == state; }))
        << Get(id).DebugString();
    return Get(id);
  }
  void AwaitStep(const std::string& id, int64_t step) {
    EXPECT_TRUE(Eventually([&] { return Get(id).progress().step() >= step; }))
        << Get(id).DebugString();
  }
  // Whether mpsd's log says so; the last lines may come after the daemon's
  // end, which waits for them for two seconds.
  bool Logs(const std::string& text) const {
    return Eventually([&] {
      const auto log = base::ReadFile(config_.state_dir / "log" / "mpsd.log");
      return log.ok() && absl::StrContains(*log, text);
    });
  }
  static bool Eventually(const std::function<bool()>& condition) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (!condition()) {
      if (absl::Now() > deadline) return false;
      absl::SleepFor(absl::Milliseconds(5));
    }
    return true;
  }
};

// A start that fails leaves a running daemon's rows alone.
TEST_F(DaemonTest, NoSecondDaemonTouchesTheRowsOfARunningOne) {
  auto daemon = StartHere();
  const std::string id = SubmitMode("ok-slow", 1000000);
  AwaitStep(id, 2);
  fs::remove(config_.state_dir / "lock");
  EXPECT_TRUE(absl::IsUnavailable(Daemon::Start(config_).status()));
  AwaitStep(id, Get(id).progress().step() + 1);
  EXPECT_EQ(Get(id).attempt(), 1);
  daemon.reset();

  config_.state_dir = folder_ / "other";
  fs::create_directories(config_.state_dir);
  listener::Listener::Options options;
  options.addresses = {"unix:" + config_.SocketPath().string()};
  const auto taken = listener::Listener::Open(options);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_TRUE(absl::IsUnavailable(Daemon::Start(config_).status()));
  EXPECT_FALSE(fs::exists(config_.state_dir / "mpsd.db"));
}

TEST_F(DaemonTest, LinksOfFilesThatEarlierVersionsNamedGo) {
  fs::create_directories(config_.state_dir / "files");
  std::ofstream(config_.state_dir / "files" / "file-1") << "x";
  const auto daemon = StartHere();
  EXPECT_FALSE(fs::exists(config_.state_dir / "files"));
}

TEST_F(DaemonTest, RefusesWhatCannotBe) {
  // A socket's path that the system cannot hold.
  config_.state_dir = folder_ / std::string(120, 'x');
  absl::Status refused = Daemon::Start(config_).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--state-dir"));
  config_.state_dir = folder_ / "state";
  config_.worker = "/no/such/mpsd-worker";
  refused = Daemon::Start(config_).status();
  EXPECT_TRUE(absl::IsNotFound(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--worker"));
}

// As a client of a port may send it.
TEST_F(DaemonTest, AJobReadsNothingOutsideOfItsFolders) {
  config_.model_roots = {folder_ / "model"};
  config_.data_roots = {folder_ / "data"};
  fs::create_directories(folder_ / "data");
  std::ofstream(folder_ / "data/t.jsonl") << "{\"text\": \"hello\"}\n";
  auto daemon = StartHere();
  const auto submit = [&](const fs::path& model, const fs::path& train) {
    v1::Job job;
    const grpc::Status status =
        Submit(R"({"name": "fake:read-roots", "model": ")" + model.string() +
                   R"(", "dataset": {"train": ")" + train.string() + R"("}})",
               job);
    return status.ok() ? job.id() : status.error_message();
  };
  // train.jsonl is there, none.jsonl is not.
  for (const char* file : {"train.jsonl", "none.jsonl"}) {
    EXPECT_THAT(submit(folder_ / "model", folder_ / file),
                HasSubstr("is not below a folder that jobs may read"));
  }
  EXPECT_THAT(submit(folder_ / "data", folder_ / "data/t.jsonl"),
              HasSubstr("--model-root"));
  EXPECT_THAT(submit("/etc", folder_ / "data/t.jsonl"),
              HasSubstr("is not below a folder that jobs may read"));
  const std::string id = submit(folder_ / "model", folder_ / "data/t.jsonl");
  AwaitState(id, v1::JOB_STATE_SUCCEEDED);
  const std::string text =
      *base::ReadFile(config_.state_dir / "jobs" / id / "log");
  for (const fs::path& root :
       {folder_ / "model", folder_ / "data", config_.state_dir / "jobs" / id}) {
    EXPECT_THAT(text, HasSubstr("may read " + root.string() + "\n"));
  }
  EXPECT_THAT(text, HasSubstr("no other in " + config_.state_dir.string()));
  EXPECT_THAT(text, testing::Not(HasSubstr("blobs")));
}

TEST_F(DaemonTest, NamesWhereItListens) {
  config_.log_level = "info";
  config_.listen = {"127.0.0.1:0"};
  config_.metrics_address = config_.http_listen = "127.0.0.1:0";
  auto daemon = StartHere();
  const v1::InfoResponse info = Info();
  ASSERT_EQ(info.api_addresses_size(), 2);
  EXPECT_EQ(info.api_addresses(0), "unix:" + config_.SocketPath().string());
  EXPECT_TRUE(Logs("serves the API on " + info.api_addresses(0) +
                   "; the API on " + info.api_addresses(1) +
                   "; the metrics on http://" + info.metrics_address() +
                   "/metrics; the web page on http://" + info.page_address() +
                   "/"));
}

TEST_F(DaemonTest, ATakenMetricsPortIsAWarning) {
  config_.log_level = "warn";
  config_.metrics_address = "127.0.0.1:0";
  auto first = StartHere();
  config_.state_dir = folder_ / "other";
  config_.metrics_address = first->metrics_address();
  {
    auto second = StartHere();
    EXPECT_EQ(second->metrics_address(), "");
    AwaitState(SubmitMode("ok"), v1::JOB_STATE_SUCCEEDED);
  }
  EXPECT_TRUE(Logs("metrics are off: "));
  EXPECT_TRUE(Logs("--metrics-address"));
  // What is no address is a fault of the configuration.
  config_.metrics_address = "nonsense";
  EXPECT_TRUE(absl::IsInvalidArgument(Daemon::Start(config_).status()));
}

TEST_F(DaemonTest, ServesThePageAndRunsWithoutIt) {
  config_.log_level = "warn";
  config_.http_listen = "127.0.0.1:0";
  auto first = StartHere();
  const std::string address = Info().page_address();
  EXPECT_THAT(http::Get(address, "/api/info"), HasSubstr("HTTP/1.1 403 "));
  config_.state_dir = folder_ / "other";
  config_.http_listen = address;
  {
    auto second = StartHere();
    EXPECT_EQ(Info().page_address(), "");
    AwaitState(SubmitMode("ok"), v1::JOB_STATE_SUCCEEDED);
  }
  EXPECT_TRUE(Logs("the web page is off: "));
  EXPECT_TRUE(Logs("(choose another --http-listen)"));
  config_.http_listen = "localhost:http";
  EXPECT_TRUE(absl::IsInvalidArgument(Daemon::Start(config_).status()));
}

// Two people's daemons on one machine.
TEST_F(DaemonTest, AJobWaitsForAnotherDaemonsGpu) {
  config_.device_lock = folder_ / "gpu.lock";
  auto first = StartHere();
  const std::string running = SubmitMode("ok-slow", 1000000);
  AwaitStep(running, 1);
  config_.state_dir = folder_ / "other";
  auto second = StartHere();
  const std::string waiting = SubmitMode("ok");
  EXPECT_TRUE(Eventually([&] {
    return absl::StrContains(Info().hold(), "another mpsd uses the GPU");
  })) << Info().hold();
  EXPECT_EQ(Get(waiting).state(), v1::JOB_STATE_QUEUED);
  first.reset();
  AwaitState(waiting, v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Get(waiting).attempt(), 1);
}

class HostileInput : public DaemonFixture {
 protected:
  HostileInput() {
    config_.log_level = Config().log_level;
    config_.log_stderr = false;
  }
  void ExpectRefused(
      const std::string& spec_json, const std::string& why,
      grpc::StatusCode code = grpc::StatusCode::INVALID_ARGUMENT) {
    v1::Job job;
    const grpc::Status status = Submit(spec_json, job);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(why));
    Info();  // it answers
  }
  // The job once it has ended.
  v1::Job Ended(const std::string& id) {
    v1::WatchRequest request;
    request.set_id(id);
    grpc::ClientContext context;
    const auto jobs = Jobs();
    auto stream = jobs->Watch(&context, request);
    for (v1::JobEvent event; stream->Read(&event);) {
      EXPECT_LE(event.ByteSizeLong(), 3 * limits::kMessageBytes);
      EXPECT_TRUE(base::IsPrintable(event.note())) << event.note();
      EXPECT_TRUE(base::IsPrintable(event.warning())) << event.warning();
    }
    EXPECT_TRUE(stream->Finish().ok());
    return Get(id);
  }
  static std::vector<std::string> Lines(const fs::path& path) {
    std::vector<std::string> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
};

TEST_F(HostileInput, NestedBrackets) {
  auto daemon = StartHere();
  const std::string deeper = "nested deeper than 64 levels";
  ExpectRefused(std::string(100'000, '['), deeper);
  ExpectRefused(std::string(limits::kJsonDepth + 1, '['), deeper);
  ExpectRefused(std::string(limits::kJsonDepth, '['), "syntax error");
  ExpectRefused(std::string(100'000, '[') + std::string(100'000, ']'), deeper);
  std::string objects;
  while (objects.size() < 500'000) objects += "{\"a\":";
  ExpectRefused(objects, deeper);
  ExpectRefused("{\"model\": " + std::string(100'000, '[') +
                    std::string(100'000, ']') + "}",
                deeper);
}

TEST_F(HostileInput, ModelsThatDoNotExist) {
  auto daemon = StartHere();
  const auto code = grpc::StatusCode::FAILED_PRECONDITION;
  Configure(limits::kModelLayers + 1);
  ExpectRefused(Spec("n"),
                "num_hidden_layers: expected an integer >= 1 and <= 10000, "
                "found 10001",
                code);
  Configure(8'000'000);
  ExpectRefused(Spec("n"), "num_hidden_layers", code);
  const fs::path path = folder_ / "model" / "config.json";
  fs::resize_file(path, uintmax_t{3} << 30);  // takes no room
  ExpectRefused(Spec("n"), "config.json: longer than 16777216 bytes", code);
  Configure(limits::kModelLayers);
  v1::Job job;
  EXPECT_TRUE(Submit(Spec("n"), job).ok());
}

TEST_F(HostileInput, WhatAWorkerRepeatsIsShortAndPrintable) {
  config_.skip_selftest = true;
  auto daemon = StartHere();
  v1::Job job;
  const grpc::Status status = Submit(Spec("fake:hostile"), job);
  ASSERT_TRUE(status.ok()) << status.error_message();
  job = Ended(job.id());
  EXPECT_EQ(job.state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(job.exit_reason(), "Rejected");
  EXPECT_LE(job.message().size(), limits::kMessageBytes);
  EXPECT_GT(job.message().size(), limits::kMessageBytes - 100);
  EXPECT_TRUE(base::IsPrintable(job.message(), base::Breaks::kKeep));
  EXPECT_THAT(job.message(), HasSubstr("\\x1b]0;PWNED\\x07\\x1b[2J\n"));
  EXPECT_EQ(job.metrics().size(), limits::kMetrics);
  ASSERT_EQ(job.warnings_size(), 1);
  EXPECT_THAT(job.warnings(0), HasSubstr("PWNED\\x07\\x1b[2J\\n2026-"));
  const fs::path job_log = config_.state_dir / "jobs" / job.id() / "log";
  daemon.reset();
  size_t bytes = 0;
  for (const std::string& line : Lines(config_.state_dir / "log/mpsd.log")) {
    EXPECT_TRUE(base::IsPrintable(line)) << line;
    EXPECT_FALSE(line.starts_with("2026-11-22T10:00:00.000Z")) << line;
    bytes += line.size();
  }
  EXPECT_LT(bytes, 4 * limits::kMessageBytes);
  EXPECT_GT(bytes, 0u);
  EXPECT_FALSE(Lines(job_log).empty());
  for (const std::string& line : Lines(job_log)) {
    EXPECT_FALSE(line.starts_with("2026-11-22T10:00:00.000Z")) << line;
    EXPECT_TRUE(base::IsPrintable(line)) << line;
  }
}

}  // namespace
}  // namespace mpsd
