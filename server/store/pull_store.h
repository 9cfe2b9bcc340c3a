// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_PULL_STORE_H_
#define MPSD_SERVER_STORE_PULL_STORE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/models/pull_store.h"
#include "server/store/database.h"

namespace mpsd::store {

// models::PullStore over SQLite.
class PullStore final : public models::PullStore {
 public:
  // `database` must outlive the store.
  explicit PullStore(Database& database) : database_(database) {}

  absl::Status Add(const models::KeptPull& pull) override;
  absl::Status SetCommit(const std::string& id, const std::string& revision,
                         const std::string& commit) override;
  absl::Status Remove(const std::string& id,
                      const std::string& revision) override;
  absl::StatusOr<std::vector<models::KeptPull>> List() override;

 private:
  Database& database_;
};

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_PULL_STORE_H_
