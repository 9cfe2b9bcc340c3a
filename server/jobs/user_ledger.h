// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_USER_LEDGER_H_
#define MPSD_SERVER_JOBS_USER_LEDGER_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/jobs/user_limits.h"

namespace mpsd::jobs {

// Blobs that a user sends, while they come. A claim that is destroyed before
// Commit counts for nobody. One thread at a time.
class UploadClaim {
 public:
  virtual ~UploadClaim() = default;
  // Asked before bytes of a blob are taken: `size_bytes` of them come.
  // ResourceExhausted where they would be too many beside what the user has and
  // sends meanwhile.
  virtual absl::Status Add(const std::string& sha256, int64_t size_bytes) = 0;
  // Counts the blobs, which the store has by now.
  virtual absl::Status Commit() = 0;
};

// What a user has in the state folder, in bytes.
struct UserBytes {
  int64_t uploads = 0;  // and what its pulls wrote into the models' cache
  int64_t results = 0;
};

// Counts what each user has. A blob counts in full for each user who sent it or
// whose jobs were submitted with it, until the blob store removes the blob; a
// pulled model for who pulled it.
// Results are the folders of a user's jobs: as measured last, or the sum of the
// job's checkpoints where that is more. Thread-safe; implemented by
// server/store.
class UserLedger {
 public:
  virtual ~UserLedger() = default;
  virtual std::unique_ptr<UploadClaim> Begin(const std::string& user,
                                             const UserLimits& limits) = 0;
  // Counts blobs that the store has for the user of a submission;
  // ResourceExhausted, with nothing counted, where they are too many.
  virtual absl::Status Use(const std::string& user, const UserLimits& limits,
                           const std::set<std::string>& blobs) = 0;
  // Whether the blob counts for the user.
  virtual absl::StatusOr<bool> Holds(const std::string& user,
                                     const std::string& sha256) = 0;
  virtual absl::StatusOr<UserBytes> BytesOf(const std::string& user) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_USER_LEDGER_H_
