// SPDX-License-Identifier: Apache-2.0
#include "tests/client/fake_models.h"

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/client/fake_failures.h"

namespace mpsd::client {

FakeModels::Status FakeModels::ListModels(Context*,
                                          const v1::ListModelsRequest* request,
                                          v1::ListModelsResponse* response) {
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

FakeModels::Status FakeModels::Push(Context*,
                                    const v1::PushModelRequest* request,
                                    v1::PushModelResponse* response) {
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

FakeModels::Status FakeModels::Pull(
    Context* context, const v1::PullModelRequest* request,
    grpc::ServerWriter<v1::PullModelProgress>* writer) {
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

FakeModels::Status FakeModels::CancelPull(Context*,
                                          const v1::CancelPullRequest* request,
                                          v1::CancelPullResponse*) {
  absl::MutexLock lock(&mutex_);
  cancelled.push_back(*request);
  return Failure("CancelPull");
}

FakeModels::Status FakeModels::RemoveModel(
    Context*, const v1::RemoveModelRequest* request,
    v1::RemoveModelResponse* response) {
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

FakeModels::Status FakeModels::Failure(const std::string& method) {
  return FailureOf(fail_, method);
}

}  // namespace mpsd::client
