// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_RPC_FAKE_AUDIT_H_
#define MPSD_TESTS_SERVER_RPC_FAKE_AUDIT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/access/audit_trail.h"

namespace mpsd::rpc {

// Keeps what is noted in memory. Thread-safe.
class FakeAudit : public access::AuditLog {
 public:
  struct Entry {
    access::Request request;
    bool refused = false;
    bool ended = false;
    absl::Status result;
    std::string made_job_id;
  };

  absl::StatusOr<int64_t> Begin(const access::Request& request) override {
    absl::MutexLock lock(&mutex_);
    if (!begin_error_.ok()) return begin_error_;
    entries_.push_back({request, false, false, absl::OkStatus(), ""});
    return static_cast<int64_t>(entries_.size());
  }
  void End(int64_t entry, const absl::Status& result,
           const std::string& job_id) override {
    absl::MutexLock lock(&mutex_);
    Entry& ended = entries_.at(entry - 1);
    ended.ended = true;
    ended.result = result;
    ended.made_job_id = job_id;
  }
  void Refused(const access::Request& request,
               const absl::Status& why) override {
    absl::MutexLock lock(&mutex_);
    entries_.push_back({request, true, true, why, ""});
  }

  void FailBegin(absl::Status error) {
    absl::MutexLock lock(&mutex_);
    begin_error_ = std::move(error);
  }
  // Waits until every entry has its end, and forgets the entries.
  std::vector<Entry> Take() {
    absl::MutexLock lock(&mutex_);
    const auto ended = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      for (const Entry& entry : entries_) {
        if (!entry.ended) return false;
      }
      return true;
    };
    mutex_.AwaitWithTimeout(absl::Condition(&ended), absl::Minutes(1));
    return std::exchange(entries_, {});
  }

 private:
  absl::Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  absl::Status begin_error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::rpc

#endif  // MPSD_TESTS_SERVER_RPC_FAKE_AUDIT_H_
