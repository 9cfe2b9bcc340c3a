// SPDX-License-Identifier: Apache-2.0
// Keeps the API of a running mpsd busy with submits and times what others wait
// for Get and Info meanwhile; prints one JSON object.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "core/base/sha256.h"
#include "grpcpp/grpcpp.h"
#include "mpsd/v1/artifacts.grpc.pb.h"
#include "mpsd/v1/daemon.grpc.pb.h"
#include "mpsd/v1/jobs.grpc.pb.h"

namespace {

namespace v1 = mpsd::v1;
using Clock = std::chrono::steady_clock;

constexpr int kBlobs = 100;  // of different content
constexpr auto kEvery = std::chrono::milliseconds(5);

struct Load {
  std::string address, job_id, spec_json;
  int submits = 8;     // at a time
  int images = 2000;   // of each
  double seconds = 3;  // each submits once at least
  bool until_end_of_input = false;

  std::vector<std::string> blobs;
  Clock::time_point end;
  std::atomic<int> submitting = 0, submitted = 0;
  std::atomic<double> slowest_submit = 0;
};

double Milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// A connection of its own.
std::shared_ptr<grpc::Channel> Connect(const Load& load) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(
      load.address, grpc::InsecureChannelCredentials(), arguments);
}

void Require(const grpc::Status& status, const char* call) {
  if (status.ok()) return;
  std::cerr << call << ": " << status.error_message() << "\n";
  std::exit(1);
}

void UploadBlobs(Load& load) {
  auto stub = v1::ArtifactService::NewStub(Connect(load));
  for (int i = 0; i < kBlobs; ++i) {
    const std::string bytes = "image " + std::to_string(i);
    load.blobs.push_back(mpsd::base::Sha256Hex(bytes));
    grpc::ClientContext context;
    v1::UploadResponse response;
    auto writer = stub->Upload(&context, &response);
    v1::UploadRequest part;
    part.mutable_header()->set_sha256(load.blobs.back());
    part.mutable_header()->set_size_bytes(bytes.size());
    writer->Write(part);
    part.set_data(bytes);
    writer->Write(part);
    writer->WritesDone();
    Require(writer->Finish(), "Upload");
  }
}

void Submit(Load& load) {
  auto stub = v1::JobService::NewStub(Connect(load));
  v1::SubmitRequest request;
  request.set_spec_json(load.spec_json);
  for (int i = 0; i < load.images; ++i) {
    v1::InputFile& input = *request.add_inputs();
    input.set_path("images/" + std::to_string(i % 10) + "/" +
                   std::to_string(i) + ".png");
    input.set_sha256(load.blobs[i % kBlobs]);
  }
  do {
    grpc::ClientContext context;
    v1::SubmitResponse response;
    const auto begin = Clock::now();
    Require(stub->Submit(&context, request, &response), "Submit");
    const double took = Milliseconds(Clock::now() - begin);
    load.slowest_submit = std::max(load.slowest_submit.load(), took);
    ++load.submitted;
  } while (Clock::now() < load.end);
  --load.submitting;
}

// Milliseconds of each call, as long as submits last. A call is made
// every kEvery: one that takes longer keeps those back that were due meanwhile,
// and they count with what they would have waited.
template <typename Call>
std::vector<double> TimeCalls(Load& load, const char* name, Call call) {
  std::vector<double> took;
  do {
    grpc::ClientContext context;
    const auto begin = Clock::now();
    Require(call(&context), name);
    const auto end = Clock::now();
    for (auto due = begin; due < end; due += kEvery) {
      took.push_back(Milliseconds(end - due));
    }
    std::this_thread::sleep_until(begin + kEvery);
  } while (load.submitting > 0);
  std::sort(took.begin(), took.end());
  return took;
}

std::string Quantiles(const std::vector<double>& sorted) {
  const auto at = [&](double share) {
    return std::to_string(sorted[static_cast<size_t>(
        share * static_cast<double>(sorted.size() - 1))]);
  };
  return "{\"calls\": " + std::to_string(sorted.size()) +
         ", \"p50_ms\": " + at(0.5) + ", \"p99_ms\": " + at(0.99) +
         ", \"max_ms\": " + at(1) + "}";
}

void Run(Load& load) {
  load.end = Clock::now() + std::chrono::milliseconds(
                                static_cast<int64_t>(load.seconds * 1000));
  load.submitting = load.submits;
  std::vector<std::thread> threads;
  for (int i = 0; i < load.submits; ++i) {
    threads.emplace_back([&] { Submit(load); });
  }
  if (load.until_end_of_input) {
    ++load.submitting;
    threads.emplace_back([&] {
      while (std::cin.get() != EOF) {
      }
      --load.submitting;
    });
  }
  std::vector<double> gets, infos;
  threads.emplace_back([&] {
    auto stub = v1::JobService::NewStub(Connect(load));
    v1::GetJobRequest request;
    request.set_id(load.job_id);
    v1::Job job;
    gets = TimeCalls(load, "Get", [&](grpc::ClientContext* context) {
      return stub->Get(context, request, &job);
    });
  });
  threads.emplace_back([&] {
    auto stub = v1::DaemonService::NewStub(Connect(load));
    v1::InfoResponse info;
    infos = TimeCalls(load, "Info", [&](grpc::ClientContext* context) {
      return stub->Info(context, {}, &info);
    });
  });
  for (std::thread& thread : threads) thread.join();
  std::cout << "{\"get\": " << Quantiles(gets)
            << ", \"info\": " << Quantiles(infos)
            << ", \"submits\": " << load.submitted
            << ", \"slowest_submit_ms\": " << load.slowest_submit << "}\n";
}

}  // namespace

int main(int argc, char** argv) {
  Load load;
  std::string job_file;
  CLI::App app("Submits jobs of many images and times Get and Info", "load");
  app.add_option("--address", load.address)->required();
  app.add_option("--get", load.job_id, "Id of the job to ask for")->required();
  app.add_option("--job", job_file, "A job.json whose data lie in images/")
      ->required();
  app.add_option("--submits", load.submits);
  app.add_option("--images", load.images);
  app.add_option("--seconds", load.seconds);
  app.add_flag("--until-end-of-input", load.until_end_of_input,
               "Times calls this long");
  CLI11_PARSE(app, argc, argv);
  std::ifstream file(job_file);
  load.spec_json = {std::istreambuf_iterator<char>(file), {}};
  UploadBlobs(load);
  Run(load);
}
