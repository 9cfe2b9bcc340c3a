// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_context.h>

#include <memory>
#include <string>

#include "absl/synchronization/mutex.h"
#include "tests/client/fake_daemon_data.h"

namespace mpsd::client {

// A daemon out of plain data, on a unix socket. Tests fill the data before a
// call and read it after; nothing here schedules or trains. Calls are answered
// one at a time.
class FakeDaemon {
 public:
  using Data = FakeDaemonData;

  // With `port_credentials` on a port of 127.0.0.1, too.
  explicit FakeDaemon(
      std::string socket,
      std::shared_ptr<grpc::ServerCredentials> port_credentials = nullptr);
  ~FakeDaemon();

  void Start();
  void Stop();
  // Breaks every connection off, whatever is under way.
  void Kill();

  Data& data() { return data_; }
  int port() const { return port_; }

  // What the test wrote is seen by the calls that follow, and what calls wrote
  // by the test.
  void Sync();

 private:
  using Context = grpc::ServerContext;
  using Status = grpc::Status;

  template <typename Service>
  class Part;
  class TokenCheck;
  class Jobs;
  class Artifacts;
  class Daemon;
  class Access;
  class Models;
  class Runbook;
  struct Services;

  static Status NoJob(const std::string& id);
  Status Failure(const std::string& method);
  v1::Job* Find(const std::string& id);
  Status Answer(const std::string& method, const std::string& id,
                v1::Job* answer);
  // A job, deleted or not, and its record.
  Status Record(const std::string& method, const std::string& id,
                v1::GetRecordResponse* response);
  // Without the lock: the test may continue meanwhile.
  Status Idle(Context* context) ABSL_NO_THREAD_SAFETY_ANALYSIS;

  const std::string socket_;
  const std::shared_ptr<grpc::ServerCredentials> credentials_;
  int port_ = 0;
  absl::Mutex token_mutex_;  // the members of data_ that TokenCheck uses
  absl::Mutex mutex_;
  Data data_;
  std::unique_ptr<Services> services_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace mpsd::client
