// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_ENDED_JOB_STORE_H_
#define MPSD_SERVER_STORE_ENDED_JOB_STORE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/jobs/job_store.h"
#include "server/store/database.h"

namespace mpsd::store {

// jobs::EndedJobs over SQLite, where a trigger adds the ends.
class EndedJobStore final : public jobs::EndedJobs {
 public:
  // `database` must outlive the store.
  explicit EndedJobStore(Database& database) : database_(database) {}

  absl::StatusOr<std::vector<jobs::EndedJob>> After(int64_t number,
                                                    int limit) override;
  absl::Status Forget(int64_t number) override;

 private:
  Database& database_;
};

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_ENDED_JOB_STORE_H_
