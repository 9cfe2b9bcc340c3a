// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_RPC_FAKE_CALLS_H_
#define MPSD_TESTS_SERVER_RPC_FAKE_CALLS_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/jobs/meters.h"

namespace mpsd::rpc {

// Keeps what the server reports of its calls.
class FakeCalls : public jobs::ExportedCalls {
 public:
  void MethodServed(const jobs::CallMethod& method) override {
    absl::MutexLock lock(&mutex_);
    served_[method.name] = method.is_stream;
  }
  void CallStarted(const jobs::CallMethod& method) override {
    absl::MutexLock lock(&mutex_);
    ++open_[method.name];
  }
  void CallEnded(const jobs::CallMethod& method, absl::StatusCode code,
                 absl::Duration duration) override {
    absl::MutexLock lock(&mutex_);
    --open_[method.name];
    ended_.emplace_back(method.name, code);
    durations_.push_back(duration);
  }

  std::map<std::string, bool> served() {
    absl::MutexLock lock(&mutex_);
    return served_;
  }
  // Waits for the end of `calls` calls; the codes and methods of all so far.
  std::vector<std::pair<std::string, absl::StatusCode>> Await(
      size_t calls, absl::Duration patience = absl::Minutes(1)) {
    absl::MutexLock lock(&mutex_);
    const auto ended = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return ended_.size() >= calls;
    };
    mutex_.AwaitWithTimeout(absl::Condition(&ended), patience);
    return ended_;
  }
  int open(const std::string& method) {
    absl::MutexLock lock(&mutex_);
    return open_[method];
  }
  std::vector<absl::Duration> durations() {
    absl::MutexLock lock(&mutex_);
    return durations_;
  }

 private:
  absl::Mutex mutex_;
  std::map<std::string, bool> served_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> open_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<std::string, absl::StatusCode>> ended_
      ABSL_GUARDED_BY(mutex_);
  std::vector<absl::Duration> durations_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::rpc

#endif  // MPSD_TESTS_SERVER_RPC_FAKE_CALLS_H_
