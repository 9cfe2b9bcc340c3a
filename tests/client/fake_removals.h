// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CLIENT_FAKE_REMOVALS_H_
#define MPSD_TESTS_CLIENT_FAKE_REMOVALS_H_

#include <algorithm>
#include <string>

#include "absl/synchronization/mutex.h"
#include "mpsd/v1/daemon.grpc.pb.h"
#include "mpsd/v1/jobs.grpc.pb.h"
#include "tests/client/fake_daemon_data.h"

namespace mpsd::client {

// The calls of FakeDaemon that remove jobs, and keep them, out of its data.
class FakeRemovals : public v1::JobService::Service {
 public:
  grpc::Status DeleteJobs(grpc::ServerContext*,
                          const v1::DeleteJobsRequest* request,
                          v1::DeleteJobsResponse* response) override {
    absl::MutexLock lock(&locked_);
    found_.deleted.push_back(*request);
    if (found_.fail.contains("DeleteJobs")) return found_.fail["DeleteJobs"];
    if (found_.delete_answers.empty()) return grpc::Status::OK;
    *response = found_.delete_answers.front();
    if (found_.delete_answers.size() > 1) {
      found_.delete_answers.erase(found_.delete_answers.begin());
    }
    return grpc::Status::OK;
  }
  grpc::Status Pin(grpc::ServerContext*, const v1::PinRequest* request,
                   v1::Job* job) override {
    return SetPinned(request->id(), true, job);
  }
  grpc::Status Unpin(grpc::ServerContext*, const v1::UnpinRequest* request,
                     v1::Job* job) override {
    return SetPinned(request->id(), false, job);
  }

 protected:
  FakeRemovals(FakeDaemonData& data, absl::Mutex& mutex)
      : found_(data), locked_(mutex) {}

 private:
  grpc::Status SetPinned(const std::string& id, bool pinned, v1::Job* answer) {
    absl::MutexLock lock(&locked_);
    for (v1::Job& job : found_.jobs) {
      if (job.id() != id) continue;
      job.set_pinned(pinned);
      *answer = job;
      return grpc::Status::OK;
    }
    return {grpc::StatusCode::NOT_FOUND, "no job " + id};
  }

  FakeDaemonData& found_;
  absl::Mutex& locked_;
};

class FakeCollections : public v1::DaemonService::Service {
 public:
  grpc::Status PlanCollection(grpc::ServerContext*,
                              const v1::PlanCollectionRequest*,
                              v1::PlanCollectionResponse* response) override {
    absl::MutexLock lock(&locked_);
    *response = found_.plan;
    return grpc::Status::OK;
  }
  grpc::Status Collect(grpc::ServerContext*, const v1::CollectRequest*,
                       v1::CollectResponse* response) override {
    absl::MutexLock lock(&locked_);
    if (found_.fail.contains("Collect")) return found_.fail["Collect"];
    ++found_.collections;
    *response = found_.collected;
    return grpc::Status::OK;
  }

 protected:
  FakeCollections(FakeDaemonData& data, absl::Mutex& mutex)
      : found_(data), locked_(mutex) {}

 private:
  FakeDaemonData& found_;
  absl::Mutex& locked_;
};

}  // namespace mpsd::client

#endif  // MPSD_TESTS_CLIENT_FAKE_REMOVALS_H_
