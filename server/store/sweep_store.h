// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_SWEEP_STORE_H_
#define MPSD_SERVER_STORE_SWEEP_STORE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/database.h"
#include "server/store/sqlite_job_store.h"
#include "server/sweeps/sweep_store.h"

namespace mpsd::store {

// sweeps::SweepStore over SQLite.
class SweepStore final : public sweeps::SweepStore {
 public:
  // Both must outlive the store; `jobs` is over the same database.
  SweepStore(Database& database, SqliteJobStore& jobs)
      : database_(database), jobs_(jobs) {}

  absl::Status Insert(const sweeps::Sweep& sweep,
                      absl::Span<const jobs::Job> jobs,
                      absl::Span<const jobs::Event> events) override;
  absl::StatusOr<sweeps::Sweep> Get(const std::string& id) override;
  absl::StatusOr<std::optional<sweeps::Sweep>> FindByIdempotencyKey(
      const std::string& owner, const std::string& key) override;
  absl::StatusOr<std::vector<sweeps::Sweep>> List(
      const sweeps::SweepFilter& filter) override;
  absl::StatusOr<std::vector<std::string>> Thinning() override;
  absl::Status Decide(const sweeps::Sweep& sweep) override;

 private:
  Database& database_;
  SqliteJobStore& jobs_;
};

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_SWEEP_STORE_H_
