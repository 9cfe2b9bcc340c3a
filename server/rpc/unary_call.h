// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_UNARY_CALL_H_
#define MPSD_SERVER_RPC_UNARY_CALL_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "grpcpp/grpcpp.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/barrier.h"
#include "server/rpc/executor.h"
#include "server/rpc/gate.h"

namespace mpsd::rpc {

// The threads on which unary calls of one kind run, and how many calls may wait
// for a thread. Slow kinds of calls have their own host, so that other calls
// never queue after them. Thread-safe. The host must outlive its calls.
class CallHost {
 public:
  CallHost(int threads, size_t max_waiting, Barrier barrier)
      : max_waiting_(max_waiting),
        barrier_(std::move(barrier)),
        executor_(threads) {}

  // Ends waiting calls with UNAVAILABLE, and makes running calls see that no
  // client waits any more.
  void Close() { closed_ = true; }

  bool closed() const { return closed_; }
  // False, without posting, if too many calls wait already.
  bool Post(std::function<void()> task) {
    return executor_.TryPost(std::move(task), max_waiting_);
  }
  const Barrier& barrier() const { return barrier_; }

 private:
  const size_t max_waiting_;
  const Barrier barrier_;
  std::atomic<bool> closed_ = false;
  Executor executor_;  // last: its tasks use the members above
};

// What a handler knows of a call besides its messages.
struct Call {
  access::Rights rights;    // the caller, and what the caller may see
  jobs::Wanted wanted;      // whether the client still waits
  std::string made_job_id;  // the job that the handler made, for the audit
  // Set if jobs are made or queued again.
  jobs::UserLimits limits = {};
};

// Checks with the gate for a call that has entered, does the work and has the
// end recorded; the part of Answer that other listeners than gRPC's have too.
absl::Status Carry(const Gate& gate, const Asked& asked, const Barrier& barrier,
                   const std::function<absl::Status(Call&)>& work, Call& call);

// Runs `work` on a thread of the host and answers the call with the status, so
// that a handler is one line. `work` does not run if the gate refuses the call,
// or if the client is gone or the deadline has passed before its turn.
// UNAVAILABLE if the host has no room. Work of several steps checks between
// them whether the client still waits.
grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                 const Gate& gate, CallHost& host, Asked asked,
                                 std::function<absl::Status(Call&)> work);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_UNARY_CALL_H_
