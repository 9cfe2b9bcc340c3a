// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CLIENT_FAKE_MODELS_H_
#define MPSD_TESTS_CLIENT_FAKE_MODELS_H_

#include <grpcpp/server_context.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "mpsd/v1/models.grpc.pb.h"

namespace mpsd::client {

// The models of a FakeDaemon, out of plain data.
class FakeModels final : public v1::ModelService::Service {
 public:
  using Context = grpc::ServerContext;
  using Status = grpc::Status;

  // The daemon's own: its lock, what its methods end with, its blobs.
  FakeModels(absl::Mutex& mutex, std::map<std::string, Status>& fail,
             const std::map<std::string, std::string>& blobs)
      : mutex_(mutex), fail_(fail), blobs_(blobs) {}

  std::vector<v1::Model> listed;
  std::vector<v1::PushModelRequest> pushed;
  std::vector<std::string> removed;

  // Says no to a name with a blank, as mpsd does.
  Status ListModels(Context*, const v1::ListModelsRequest* request,
                    v1::ListModelsResponse* response) override {
    absl::MutexLock lock(&mutex_);
    if (request->name().find(' ') != std::string::npos) {
      return Status(grpc::StatusCode::INVALID_ARGUMENT,
                    "name: '" + request->name() + "' is none");
    }
    for (const v1::Model& model : listed) {
      if (request->name().empty() || model.name() == request->name()) {
        *response->add_models() = model;
      }
    }
    return Failure("ListModels");
  }

  // Fails once as it is told, and then takes what was uploaded.
  Status Push(Context*, const v1::PushModelRequest* request,
              v1::PushModelResponse* response) override {
    absl::MutexLock lock(&mutex_);
    pushed.push_back(*request);
    if (Status s = Failure("Push"); !s.ok()) {
      fail_.erase("Push");
      return s;
    }
    v1::Model& model = *response->mutable_model();
    for (const v1::PushModelRequest::File& file : request->files()) {
      if (!blobs_.contains(file.sha256())) {
        return Status(grpc::StatusCode::FAILED_PRECONDITION,
                      "files: " + file.path() + " has not been uploaded");
      }
      model.set_size_bytes(model.size_bytes() + file.size_bytes());
    }
    model.set_name(request->name());
    model.set_family("llama");
    listed.push_back(model);
    return Status::OK;
  }

  // What Pull streams, a list a call, and then the status of "Pull", once.
  std::vector<std::vector<v1::PullModelProgress>> pulls;
  std::vector<v1::PullModelRequest> pull_requests;
  std::vector<v1::CancelPullRequest> cancelled;
  bool pulls_wait = false;  // each stream waits until its client leaves

  Status Pull(Context* context, const v1::PullModelRequest* request,
              grpc::ServerWriter<v1::PullModelProgress>* writer) override {
    std::vector<v1::PullModelProgress> news;
    Status end;
    bool waits;
    {
      absl::MutexLock lock(&mutex_);
      if (pull_requests.size() < pulls.size()) {
        news = pulls[pull_requests.size()];
      }
      pull_requests.push_back(*request);
      end = Failure("Pull");
      fail_.erase("Pull");
      waits = pulls_wait;
    }
    for (const v1::PullModelProgress& one : news) writer->Write(one);
    while (waits && !context->IsCancelled()) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    return end;
  }

  Status CancelPull(Context*, const v1::CancelPullRequest* request,
                    v1::CancelPullResponse*) override {
    absl::MutexLock lock(&mutex_);
    cancelled.push_back(*request);
    return Failure("CancelPull");
  }

  Status RemoveModel(Context*, const v1::RemoveModelRequest* request,
                     v1::RemoveModelResponse* response) override {
    absl::MutexLock lock(&mutex_);
    if (Status s = Failure("RemoveModel"); !s.ok()) return s;
    for (auto it = listed.begin(); it != listed.end(); ++it) {
      if (it->name() != request->name()) continue;
      response->set_freed_bytes(it->size_bytes());
      listed.erase(it);
      removed.push_back(request->name());
      return Status::OK;
    }
    return Status(grpc::StatusCode::NOT_FOUND, "no such model");
  }

 private:
  Status Failure(const std::string& method) {
    const auto found = fail_.find(method);
    return found == fail_.end() ? Status::OK : found->second;
  }

  absl::Mutex& mutex_;
  std::map<std::string, Status>& fail_;
  const std::map<std::string, std::string>& blobs_;
};

}  // namespace mpsd::client

#endif  // MPSD_TESTS_CLIENT_FAKE_MODELS_H_
