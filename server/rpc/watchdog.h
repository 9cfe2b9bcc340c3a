// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_WATCHDOG_H_
#define MPSD_SERVER_RPC_WATCHDOG_H_

#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"

namespace mpsd::rpc {

// Checks a server's health, each time over a new connection as any client
// would, and reports when the server no longer answers: to a service manager, a
// process that does not serve looks alive. A busy disk or queue does not delay
// the answer, because the server answers health without either.
class Watchdog {
 public:
  struct Options {
    std::string address;  // one of RpcServer::addresses()
    absl::Duration interval = absl::Seconds(40);  // between checks
    absl::Duration patience = absl::Seconds(40);  // for one answer
    int tries = 3;                                // unanswered checks in a row
    // Called with the reason, once, on the watchdog's thread.
    std::function<void(const std::string& why)> deaf;
  };

  explicit Watchdog(Options options);
  // Cancels a check in progress.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void Run();
  // Waits for the next check; false when the watchdog ends.
  bool Sleep();
  absl::Status Ask();

  const Options options_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::ClientContext* asking_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::thread thread_;
};

// OK when the server at `address` answers within `patience`, whatever health it
// reports.
absl::Status AskHealth(const std::string& address, absl::Duration patience,
                       grpc::ClientContext& context);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_WATCHDOG_H_
