// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_KEPT_JOBS_H_
#define MPSD_SERVER_STORE_KEPT_JOBS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/jobs/collector.h"
#include "server/store/database.h"

namespace mpsd::store {

// jobs::KeptJobs over SQLite. Ended() reads two small indexes, some thousand
// jobs at a time, so that no other reader waits for all of them.
class KeptJobs final : public jobs::KeptJobs {
 public:
  // `database` must outlive the KeptJobs.
  explicit KeptJobs(Database& database) : database_(database) {}

  absl::StatusOr<std::vector<jobs::KeptOwner>> Ended() override;
  absl::StatusOr<std::vector<jobs::NamedJob>> Names(
      absl::Span<const int64_t> numbers) override;
  absl::Status MayRemove(const std::string& id, absl::Time ended) override;
  absl::Status MayDelete(const std::string& id) override;

  absl::Status SetPinned(const std::string& id, bool pinned) override;
  absl::Status SetBytes(absl::Span<const jobs::FolderBytes> folders) override;
  absl::Status ForgetCheckpoints(const std::string& id,
                                 absl::Time ended) override;

 private:
  Database& database_;
};

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_KEPT_JOBS_H_
