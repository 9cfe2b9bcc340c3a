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

// Asks a server for its health, each time over a new connection as any client
// would, and reports when the server no longer answers: a process that serves
// nobody looks alive to a service manager. A busy disk or queue does not delay
// the answer, because the server answers health without either.
class Watchdog {
 public:
  struct Options {
    std::string address;  // one of RpcServer::addresses()
    absl::Duration interval = absl::Seconds(40);  // between questions
    absl::Duration patience = absl::Seconds(40);  // for one answer
    int tries = 3;  // unanswered questions in a row
    // Called with the reason, once, on the watchdog's thread.
    std::function<void(const std::string& why)> deaf;
  };

  explicit Watchdog(Options options);
  // Cancels a question that is under way.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void Run();
  // Waits for the next question; false when the watchdog ends.
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
