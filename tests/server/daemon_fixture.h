// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "mpsd/v1/daemon.grpc.pb.h"
#include "mpsd/v1/jobs.grpc.pb.h"
#include "server/daemon.h"

namespace mpsd {

// The whole daemon with the fake worker, a tiny model and a row of data.
class DaemonFixture : public testing::Test {
 protected:
  DaemonFixture()
      // Not TempDir(): a socket's path must be short.
      : folder_("/tmp/mpsd-test-" + std::to_string(getpid())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ / "model");
    Configure(1);
    std::ofstream(folder_ / "train.jsonl") << "{\"text\": \"hello\"}\n";
    config_.state_dir = folder_ / "state";
    config_.worker =
        std::filesystem::path(MPSD_TEST_BINARY_DIR) / "fake_worker";
    config_.model_roots = config_.data_roots = {folder_};
    config_.metrics_address.clear();
    config_.log_level = "error";
  }
  ~DaemonFixture() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Daemon> StartHere() {
    auto daemon = Daemon::Start(config_);
    EXPECT_TRUE(daemon.ok()) << daemon.status();
    return *std::move(daemon);
  }
  // The model's config.json.
  void Configure(int64_t layers) const {
    std::ofstream(folder_ / "model" / "config.json")
        << R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
               "vocab_size": 32, "hidden_size": 16, "intermediate_size": 32,
               "num_attention_heads": 2, "max_position_embeddings": 64,
               "rms_norm_eps": 1e-5, "hidden_act": "silu",
               "num_hidden_layers": )"
        << layers << "}";
  }
  // A job.json whose name, as "fake:ok", chooses the fake worker's mode.
  std::string Spec(const std::string& name, const std::string& more = "") {
    return R"({"name": ")" + name + R"(", "model": ")" +
           (folder_ / "model").string() + R"(", "dataset": {"train": ")" +
           (folder_ / "train.jsonl").string() + R"("})" + more + "}";
  }

  // A stub of v1::JobService, say.
  template <typename Service>
  std::unique_ptr<typename Service::Stub> Api() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return Service::NewStub(grpc::CreateCustomChannel(
        "unix:" + config_.SocketPath().string(),
        grpc::InsecureChannelCredentials(), arguments));
  }
  std::unique_ptr<v1::JobService::Stub> Jobs() const {
    return Api<v1::JobService>();
  }
  v1::InfoResponse Info() const {
    grpc::ClientContext context;
    v1::InfoResponse response;
    EXPECT_TRUE(Api<v1::DaemonService>()->Info(&context, {}, &response).ok());
    return response;
  }
  v1::Job Get(const std::string& id) const {
    grpc::ClientContext context;
    v1::GetJobRequest request;
    request.set_id(id);
    v1::Job job;
    const grpc::Status status = Jobs()->Get(&context, request, &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job;
  }
  // For any memory size of this machine.
  grpc::Status Submit(const std::string& spec_json, v1::Job& job) const {
    v1::SubmitRequest request;
    request.set_spec_json(spec_json);
    request.set_anyway(true);
    grpc::ClientContext context;
    v1::SubmitResponse response;
    grpc::Status status = Jobs()->Submit(&context, request, &response);
    job = response.job();
    return status;
  }

  const std::filesystem::path folder_;
  Config config_;
};

}  // namespace mpsd
