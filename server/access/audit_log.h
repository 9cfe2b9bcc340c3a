// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_ACCESS_AUDIT_LOG_H_
#define MPSD_SERVER_ACCESS_AUDIT_LOG_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/caller.h"

namespace mpsd::access {

// What somebody asks for, before it is known what becomes of it.
struct Request {
  Caller caller;       // with an empty user: not known
  std::string method;  // "JobService.Cancel"
  std::string job_id;  // empty: none, or one that is yet to be made
  // For people; without secrets and data. Cut to limits::kAuditBytes.
  std::string detail;
};

// Keeps who asked for which change and what became of it. Thread-safe.
class AuditLog {
 public:
  virtual ~AuditLog() = default;
  // Notes the request before anything is done, so that a daemon that is killed
  // meanwhile leaves an entry without a result. Returns the entry's number. A
  // request that cannot be noted is not carried out, unless it only stops work.
  virtual absl::StatusOr<int64_t> Begin(const Request& request) = 0;
  // Notes what became of it. `job_id`: the job that was made, or "".
  virtual void End(int64_t entry, const absl::Status& result,
                   const std::string& job_id) = 0;
  // Notes a request that was refused before it began, or that could not be
  // noted in time. Waits for nothing.
  virtual void Refused(const Request& request, const absl::Status& why) = 0;
};

}  // namespace mpsd::access

#endif  // MPSD_SERVER_ACCESS_AUDIT_LOG_H_
