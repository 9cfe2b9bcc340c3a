// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/monitor.h"
#include "server/access/rules.h"
#include "server/store/token_store.h"

namespace mpsd::access {

// Records who requested which change, and the outcome. Thread-safe.
class AuditLog {
 public:
  virtual ~AuditLog() = default;
  // Records the request before anything is done, so that a daemon that is
  // killed meanwhile leaves an entry without a result. Returns the entry's
  // number. A request that cannot be recorded is not carried out, unless it
  // only stops work.
  virtual absl::StatusOr<int64_t> Begin(const Request& request) = 0;
  // Records the outcome. `job_id`: the job that was created, or "".
  virtual void End(int64_t entry, const absl::Status& result,
                   const std::string& job_id) = 0;
  // Records a request that was refused before it began, or that could not be
  // recorded in time. Does not block.
  virtual void Refused(const Request& request, const absl::Status& why) = 0;
};

// Keeps the audit in a store. Its thread writes refusals and removes old
// entries, so Refused never waits for the disk. A caller refused repeatedly
// gets one more entry a minute, which counts the rest, so that no flood of
// refusals fills the disk.
class AuditTrail final : public AuditLog {
 public:
  struct Options {
    // Entries older than this are removed; zero: none for its age.
    absl::Duration keep = absl::Hours(24 * 365);
    int64_t most_entries = 1'000'000;
    // Entries per minute for refusals of a user, or of all unknown callers
    // together.
    int refusals_a_minute = 60;
    std::function<void(const std::string&)> log = [](const std::string&) {};
  };

  // `store` and `clock` must outlive the trail.
  AuditTrail(Options options, AuditStore& store, const base::Clock& clock);
  // Writes the pending entries.
  ~AuditTrail() override;

  absl::StatusOr<int64_t> Begin(const Request& request) override;
  void End(int64_t entry, const absl::Status& result,
           const std::string& job_id) override;
  void Refused(const Request& request, const absl::Status& why) override;

  // Writes the pending refusals and the counts of minutes that are over, and
  // returns. The trail's own thread does so soon after each refusal.
  void Flush();

 private:
  // The refusals of one user, or of all unknown callers, in one minute.
  struct Minute {
    absl::Time start;
    int written = 0;
    int64_t more = 0;
    Request last;  // the latest that was only counted
    absl::StatusCode code = absl::StatusCode::kUnknown;
  };

  AuditEntry EntryOf(const Request& request) const;
  // Moves what has to be written out of the members.
  std::deque<AuditEntry> TakeWaiting();
  void Write(const std::deque<AuditEntry>& entries);
  void Prune();
  void Run();
  // Logs at most once a minute: with a full disk every call would.
  void Complain(const absl::Status& status);

  const Options options_;
  AuditStore& store_;
  const base::Clock& clock_;
  base::Monitor mutex_;
  std::deque<AuditEntry> waiting_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Minute> minutes_ ABSL_GUARDED_BY(mutex_);  // by user
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time complained_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Mutex writing_;  // so that Flush returns once all is written
  std::thread thread_;
};

}  // namespace mpsd::access
