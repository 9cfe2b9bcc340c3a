// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_ACCESS_AUDIT_TRAIL_H_
#define MPSD_SERVER_ACCESS_AUDIT_TRAIL_H_

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
#include "server/access/rules.h"

namespace mpsd::access {

// A request, before its outcome is known.
struct Request {
  Caller caller;       // with an empty user: unknown
  std::string method;  // "JobService.Cancel"
  std::string job_id;  // empty: none, or one that is not made yet
  // Human-readable; without secrets and data. Cut to limits::kAuditBytes.
  std::string detail;
};

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

// A request and its outcome.
struct AuditEntry {
  int64_t number = 0;  // counts the entries from 1
  absl::Time time;
  Request request;
  // Absent for a request in progress, or that mpsd did not survive.
  std::optional<absl::StatusCode> result;
  std::string message;  // of the error
};

struct AuditFilter {
  std::string user;    // empty: all
  std::string job_id;  // empty: all
  // "JobService.Cancel", or "Cancel" of any service; empty: all
  std::string method;
  bool refused = false;  // only entries whose result is an error
  absl::Time since = absl::InfinitePast();
  absl::Time until = absl::InfiniteFuture();  // exclusive
  int64_t before = INT64_MAX;                 // number, exclusive
  int limit = 50;
};

// Stores audit entries. A change survives a kill of mpsd at once, and a power
// cut no later than the next change of a job does. Thread-safe. Implemented by
// server/store over SQLite.
class AuditStore {
 public:
  virtual ~AuditStore() = default;
  // Returns the new entry's number; the number in `entry` is ignored.
  virtual absl::StatusOr<int64_t> Append(const AuditEntry& entry) = 0;
  // Does nothing if the entry is gone. An empty `job_id` keeps the entry's.
  virtual absl::Status SetResult(int64_t number, const absl::Status& result,
                                 const std::string& job_id) = 0;
  // Newest first.
  virtual absl::StatusOr<std::vector<AuditEntry>> List(
      const AuditFilter& filter) = 0;
  // Removes the entries before `time`, and then, while there are more than
  // `most_entries`, the oldest ones of the user who has the most: no user can
  // push out another's entries with many requests. Removes a bounded number per
  // call, and returns how many.
  virtual absl::StatusOr<int64_t> Prune(absl::Time time,
                                        int64_t most_entries) = 0;
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
  absl::Mutex mutex_;
  std::deque<AuditEntry> waiting_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Minute> minutes_ ABSL_GUARDED_BY(mutex_);  // by user
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time complained_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Mutex writing_;  // so that Flush returns once all is written
  std::thread thread_;
};

}  // namespace mpsd::access

#endif  // MPSD_SERVER_ACCESS_AUDIT_TRAIL_H_
