// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_ACCESS_AUDIT_STORE_H_
#define MPSD_SERVER_ACCESS_AUDIT_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/access/audit_log.h"

namespace mpsd::access {

// What was asked, and what became of it.
struct AuditEntry {
  int64_t number = 0;  // counts the entries from 1
  absl::Time time;
  Request request;
  // Absent for a request under way, or that mpsd did not live to answer.
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
  // Returns the new entry's number; the number in `entry` does not count.
  virtual absl::StatusOr<int64_t> Append(const AuditEntry& entry) = 0;
  // Does nothing where the entry is gone. An empty `job_id` leaves the entry's.
  virtual absl::Status SetResult(int64_t number, const absl::Status& result,
                                 const std::string& job_id) = 0;
  // Newest first.
  virtual absl::StatusOr<std::vector<AuditEntry>> List(
      const AuditFilter& filter) = 0;
  // Removes the entries before `time`, and then, while there are more than
  // `most_entries`, the oldest ones of the user who has the most: so nobody
  // pushes out another's entries by asking for much. Removes a bounded number
  // in one call, and returns how many.
  virtual absl::StatusOr<int64_t> Prune(absl::Time time,
                                        int64_t most_entries) = 0;
};

}  // namespace mpsd::access

#endif  // MPSD_SERVER_ACCESS_AUDIT_STORE_H_
