// SPDX-License-Identifier: Apache-2.0
// The whole daemon with the fake worker, in this process and as a child.
#include "server/daemon.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "mpsd/v1/daemon.grpc.pb.h"
#include "mpsd/v1/jobs.grpc.pb.h"
#include "server/supervisor/spawned_process.h"
#include "tests/server/http/client.h"

namespace mpsd {
namespace {

namespace fs = std::filesystem;
using supervisor::SpawnedProcess;
using testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(60);

class DaemonTest : public testing::Test {
 protected:
  DaemonTest()
      // Not TempDir(): a socket's path must be short.
      : folder_(fs::path("/tmp") / ("mpsd-test-" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "model");
    std::ofstream(folder_ / "model" / "config.json") << R"({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "vocab_size": 32, "hidden_size": 16, "intermediate_size": 32,
        "num_hidden_layers": 1, "num_attention_heads": 2,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
        "hidden_act": "silu"})";
    std::ofstream(folder_ / "train.jsonl") << "{\"text\": \"hello\"}\n";
    config_.state_dir = folder_ / "state";
    config_.worker = fs::path(MPSD_TEST_BINARY_DIR) / "fake_worker";
    config_.metrics_address.clear();
    config_.log_level = "error";
    config_.stop_grace = kPatience;
    config_.retry_backoff = absl::Milliseconds(1);
    config_.model_roots = config_.data_roots = {"/"};
  }
  ~DaemonTest() override { fs::remove_all(folder_); }

  std::unique_ptr<Daemon> StartHere() {
    auto daemon = Daemon::Start(config_);
    EXPECT_TRUE(daemon.ok()) << daemon.status();
    return *std::move(daemon);
  }

  std::unique_ptr<SpawnedProcess> StartChild() {
    SpawnedProcess::Options options;
    options.program = std::string(MPSD_TEST_BINARY_DIR) + "/mpsd";
    options.args = {"--state-dir",
                    config_.state_dir,
                    "--worker",
                    config_.worker,
                    "--metrics-address",
                    "off",
                    "--device-lock",
                    "off",
                    "--log-level",
                    "error",
                    "--stop-grace-seconds",
                    "30"};
    // A sanitizer in the child reports what it would report here.
    for (const char* name : {"ASAN_OPTIONS", "TSAN_OPTIONS"}) {
      if (const char* value = std::getenv(name)) {
        options.environment[name] = value;
      }
    }
    auto process = SpawnedProcess::Spawn(std::move(options));
    EXPECT_TRUE(process.ok()) << process.status();
    // Not the socket: a daemon that was killed leaves its own behind.
    EXPECT_TRUE(Eventually([&] { return Answers(); }));
    return *std::move(process);
  }

  std::shared_ptr<grpc::Channel> Channel() const {
    return grpc::CreateCustomChannel(
        "unix:" + config_.SocketPath().string(),
        grpc::InsecureChannelCredentials(), [] {
          grpc::ChannelArguments arguments;
          arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
          return arguments;
        }());
  }
  std::unique_ptr<v1::JobService::Stub> Jobs() const {
    return v1::JobService::NewStub(Channel());
  }
  v1::InfoResponse Info() const {
    grpc::ClientContext context;
    v1::InfoResponse response;
    EXPECT_TRUE(v1::DaemonService::NewStub(Channel())
                    ->Info(&context, {}, &response)
                    .ok());
    return response;
  }
  bool Answers() const {
    grpc::ClientContext context;
    v1::InfoResponse response;
    return v1::DaemonService::NewStub(Channel())
        ->Info(&context, {}, &response)
        .ok();
  }

  std::string Submit(const std::string& mode, int steps = 5) {
    v1::SubmitRequest request;
    request.set_spec_json(
        R"({"name": "fake:)" + mode + R"(", "model": ")" +
        (folder_ / "model").string() + R"(", "dataset": {"train": ")" +
        (folder_ / "train.jsonl").string() +
        R"("}, "training": {"max_steps": )" + std::to_string(steps) + "}}");
    grpc::ClientContext context;
    v1::SubmitResponse response;
    const grpc::Status status = Jobs()->Submit(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.job().id();
  }
  v1::Job Get(const std::string& id) {
    grpc::ClientContext context;
    v1::GetJobRequest request;
    request.set_id(id);
    v1::Job job;
    const grpc::Status status = Jobs()->Get(&context, request, &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job;
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
  // Whether mpsd's log says so; the last lines may come behind the daemon's
  // end, which waits for them for two seconds.
  bool Logs(const std::string& text) const {
    return Eventually([&] {
      std::ifstream log(config_.state_dir / "log" / "mpsd.log");
      const std::string lines((std::istreambuf_iterator<char>(log)), {});
      return absl::StrContains(lines, text);
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

  const fs::path folder_;
  Config config_;
};

TEST_F(DaemonTest, RunsASubmittedJob) {
  auto daemon = StartHere();
  const v1::Job job = AwaitState(Submit("ok"), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(job.exit_reason(), "Done");
  EXPECT_EQ(job.attempt(), 1);
  EXPECT_EQ(job.progress().step(), 5);
  EXPECT_EQ(job.eval_loss_before(), 2);
  EXPECT_EQ(job.eval_loss_after(), 0.5);
  EXPECT_TRUE(fs::exists(fs::path(job.adapter_path()) / "adapter_config.json"));
}

TEST_F(DaemonTest, FailsWhatFailsAndRunsTheNext) {
  auto daemon = StartHere();
  const std::string crash = Submit("crash-segv"), ok = Submit("ok");
  AwaitState(ok, v1::JOB_STATE_SUCCEEDED);
  const v1::Job job = AwaitState(crash, v1::JOB_STATE_FAILED);
  EXPECT_EQ(job.attempt(), 3);
  EXPECT_THAT(job.message(), HasSubstr("SIGSEGV"));
}

TEST_F(DaemonTest, DrainingReturnsTheJobToTheQueueForTheNextDaemon) {
  std::string id;
  {
    auto daemon = StartHere();
    id = Submit("ok-slow", 1000000);
    AwaitStep(id, 2);
    daemon->Drain();
    const v1::Job job = Get(id);
    EXPECT_EQ(job.state(), v1::JOB_STATE_QUEUED);
    EXPECT_EQ(job.exit_reason(), "Preempted");
  }
  auto daemon = StartHere();
  const int64_t step = Get(id).progress().step();
  AwaitStep(id, step + 1);
  EXPECT_EQ(Get(id).attempt(), 2);
  grpc::ClientContext context;
  v1::CancelRequest request;
  request.set_id(id);
  v1::Job job;
  EXPECT_TRUE(Jobs()->Cancel(&context, request, &job).ok());
  AwaitState(id, v1::JOB_STATE_CANCELLED);
}

TEST_F(DaemonTest, LinksOfFilesThatEarlierVersionsNamedGo) {
  fs::create_directories(config_.state_dir / "files");
  std::ofstream(config_.state_dir / "files" / "file-1") << "x";
  const auto daemon = Daemon::Start(config_);
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  EXPECT_FALSE(fs::exists(config_.state_dir / "files"));
}

TEST_F(DaemonTest, RefusesASecondInstance) {
  auto daemon = StartHere();
  auto second = Daemon::Start(config_);
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr(std::to_string(getpid())));
}

TEST_F(DaemonTest, RefusesAWorkerThatIsNotThere) {
  config_.worker = "/no/such/mpsd-worker";
  auto daemon = Daemon::Start(config_);
  EXPECT_TRUE(absl::IsNotFound(daemon.status())) << daemon.status();
  EXPECT_THAT(std::string(daemon.status().message()), HasSubstr("--worker"));
}

TEST_F(DaemonTest, RefusesASocketPathTheSystemCannotHold) {
  config_.state_dir = folder_ / std::string(120, 'x');
  auto daemon = Daemon::Start(config_);
  EXPECT_TRUE(absl::IsInvalidArgument(daemon.status())) << daemon.status();
  EXPECT_THAT(std::string(daemon.status().message()), HasSubstr("--state-dir"));
}

// As a client of a port may send it.
TEST_F(DaemonTest, AJobReadsNothingOutsideOfItsFolders) {
  config_.model_roots = {folder_ / "model"};
  config_.data_roots = {folder_ / "data"};
  fs::create_directories(folder_ / "data");
  std::ofstream(folder_ / "data/t.jsonl") << "{\"text\": \"hello\"}\n";
  auto daemon = StartHere();
  const auto submit = [&](const fs::path& model, const fs::path& train) {
    v1::SubmitRequest request;
    request.set_spec_json(R"({"name": "fake:read-roots", "model": ")" +
                          model.string() + R"(", "dataset": {"train": ")" +
                          train.string() + R"("}})");
    grpc::ClientContext context;
    v1::SubmitResponse response;
    const grpc::Status status = Jobs()->Submit(&context, request, &response);
    return status.ok() ? response.job().id() : status.error_message();
  };
  // train.jsonl is there, none.jsonl is not.
  for (const char* file : {"train.jsonl", "none.jsonl"}) {
    EXPECT_THAT(submit(folder_ / "model", folder_ / file),
                HasSubstr("is not beneath a folder that jobs may read"));
  }
  EXPECT_THAT(submit(folder_ / "data", folder_ / "data/t.jsonl"),
              HasSubstr("--model-root"));
  EXPECT_THAT(submit("/etc", folder_ / "data/t.jsonl"),
              HasSubstr("is not beneath a folder that jobs may read"));
  const std::string id = submit(folder_ / "model", folder_ / "data/t.jsonl");
  AwaitState(id, v1::JOB_STATE_SUCCEEDED);
  std::ifstream log(config_.state_dir / "jobs" / id / "log");
  const std::string text((std::istreambuf_iterator<char>(log)), {});
  for (const fs::path& root :
       {folder_ / "model", folder_ / "data", config_.state_dir / "jobs" / id,
        config_.state_dir / "blobs"}) {
    EXPECT_THAT(text, HasSubstr("may read " + root.string() + "\n"));
  }
}

TEST_F(DaemonTest, ListensOnMoreOnlyWhenAsked) {
  config_.listen = {"127.0.0.1:0"};
  config_.metrics_address = "127.0.0.1:0";
  auto daemon = StartHere();
  ASSERT_EQ(daemon->addresses().size(), 2);
  EXPECT_THAT(daemon->addresses()[1], HasSubstr("127.0.0.1:"));
  EXPECT_THAT(daemon->metrics_address(), HasSubstr("127.0.0.1:"));
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
    AwaitState(Submit("ok"), v1::JOB_STATE_SUCCEEDED);
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
    AwaitState(Submit("ok"), v1::JOB_STATE_SUCCEEDED);
  }
  EXPECT_TRUE(Logs("the web page is off: "));
  EXPECT_TRUE(Logs("(choose another --http-listen)"));
  config_.http_listen = "localhost:http";
  EXPECT_TRUE(absl::IsInvalidArgument(Daemon::Start(config_).status()));
}

TEST_F(DaemonTest, MetricsNeedTheFilesThatAreNamed) {
  config_.metrics_address = "127.0.0.1:0";
  config_.metrics_token_file = folder_ / "nowhere";
  const absl::Status status = Daemon::Start(config_).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("--metrics-token-file"));
}

TEST_F(DaemonTest, ATokenIsReadAgainAndABrokenOneIsLogged) {
  config_.metrics_address = "127.0.0.1:0";
  config_.metrics_token_file = folder_ / "token";
  const auto write = [&](const std::string& token) {
    std::ofstream(config_.metrics_token_file) << token;
    fs::permissions(config_.metrics_token_file,
                    fs::perms::owner_read | fs::perms::owner_write);
  };
  const auto status_with = [](const std::string& address,
                              const std::string& token) {
    return http::Get(address, "/metrics",
                     "Authorization: Bearer " + token + "\r\n")
        .substr(9, 3);
  };
  const std::string first(32, 'a'), second(32, 'b');
  write(first);
  auto daemon = StartHere();
  const std::string address = daemon->metrics_address();
  EXPECT_EQ(status_with(address, first), "200");
  write(second);
  daemon->RenewCredentials();
  EXPECT_EQ(status_with(address, first), "401");
  EXPECT_EQ(status_with(address, second), "200");
  write("short");
  daemon->RenewCredentials();
  EXPECT_EQ(status_with(address, second), "200");
  daemon.reset();
  EXPECT_TRUE(Logs("the metrics keep their certificate and token"));
}

// Two people's daemons on one machine.
TEST_F(DaemonTest, AJobWaitsForAnotherDaemonsGpu) {
  config_.device_lock = folder_ / "gpu.lock";
  auto first = StartHere();
  const std::string running = Submit("ok-slow", 1000000);
  AwaitStep(running, 1);
  config_.state_dir = folder_ / "other";
  auto second = StartHere();
  const std::string waiting = Submit("ok");
  EXPECT_TRUE(Eventually([&] {
    return absl::StrContains(Info().hold(), "another mpsd uses the GPU");
  })) << Info().hold();
  EXPECT_EQ(Get(waiting).state(), v1::JOB_STATE_QUEUED);
  first.reset();
  AwaitState(waiting, v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Get(waiting).attempt(), 1);
}

TEST_F(DaemonTest, AKilledDaemonsJobResumes) {
  auto daemon = StartChild();
  const std::string id = Submit("ok-slow", 1000000);
  AwaitStep(id, 6);
  daemon->Kill();
  daemon = StartChild();
  EXPECT_TRUE(Eventually([&] { return Get(id).attempt() == 2; }));
  AwaitStep(id, 12);
  const v1::Job job = Get(id);
  EXPECT_EQ(job.attempt(), 2);
  std::ifstream log(config_.state_dir / "jobs" / id / "log");
  const std::string text((std::istreambuf_iterator<char>(log)), {});
  EXPECT_THAT(text, HasSubstr("fake worker starts at step 0\n"));
  EXPECT_THAT(text, testing::ContainsRegex("starts at step [1-9]"));
  daemon->TerminateOrKill(kPatience);
}

TEST_F(DaemonTest, SigtermLeavesACheckpointAndExitsZero) {
  auto daemon = StartChild();
  const std::string id = Submit("ok-slow", 1000000);
  AwaitStep(id, 2);
  daemon->Signal(SIGTERM);
  const int status = daemon->Wait();
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  daemon = StartChild();
  EXPECT_TRUE(Eventually([&] { return Get(id).attempt() == 2; }));
  daemon->TerminateOrKill(kPatience);
}

TEST_F(DaemonTest, ASecondProcessIsRefusedWithThePidOfTheFirst) {
  auto daemon = StartChild();
  SpawnedProcess::Options options;
  options.program = std::string(MPSD_TEST_BINARY_DIR) + "/mpsd";
  options.args = {"--state-dir",  config_.state_dir,   "--worker",
                  config_.worker, "--metrics-address", "off"};
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  supervisor::UniqueFd read_end(ends[0]);
  options.fds[2] = supervisor::UniqueFd(ends[1]);
  auto second = SpawnedProcess::Spawn(std::move(options));
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(WEXITSTATUS((*second)->Wait()), 69);
  char text[512] = {};
  ASSERT_GT(read(read_end.get(), text, sizeof text - 1), 0);
  EXPECT_THAT(std::string(text),
              HasSubstr("pid " + std::to_string(daemon->pid())));
}

}  // namespace
}  // namespace mpsd
