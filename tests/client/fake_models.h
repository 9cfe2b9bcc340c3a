// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CLIENT_FAKE_MODELS_H_
#define MPSD_TESTS_CLIENT_FAKE_MODELS_H_

#include <grpcpp/server_context.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
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
                    v1::ListModelsResponse* response) override;

  // Fails once as it is told, and then takes what was uploaded.
  Status Push(Context*, const v1::PushModelRequest* request,
              v1::PushModelResponse* response) override;

  // What Pull streams, a list a call, and then the status of "Pull", once.
  std::vector<std::vector<v1::PullModelProgress>> pulls;
  std::vector<v1::PullModelRequest> pull_requests;
  std::vector<v1::CancelPullRequest> cancelled;
  bool pulls_wait = false;  // each stream waits until its client leaves

  Status Pull(Context* context, const v1::PullModelRequest* request,
              grpc::ServerWriter<v1::PullModelProgress>* writer) override;

  Status CancelPull(Context*, const v1::CancelPullRequest* request,
                    v1::CancelPullResponse*) override;

  Status RemoveModel(Context*, const v1::RemoveModelRequest* request,
                     v1::RemoveModelResponse* response) override;

 private:
  Status Failure(const std::string& method);

  absl::Mutex& mutex_;
  std::map<std::string, Status>& fail_;
  const std::map<std::string, std::string>& blobs_;
};

}  // namespace mpsd::client

#endif  // MPSD_TESTS_CLIENT_FAKE_MODELS_H_
