// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_PULL_LEDGER_H_
#define MPSD_SERVER_STORE_PULL_LEDGER_H_

#include <map>
#include <string>

#include "server/models/pull_ledger.h"
#include "server/store/database.h"

namespace mpsd::store {

// models::PullLedger over SQLite.
class PullLedger final : public models::PullLedger {
 public:
  // `database` must outlive the ledger.
  explicit PullLedger(Database& database) : database_(database) {}

  absl::Status Add(const std::string& model, const std::string& user,
                   int64_t bytes) override;
  absl::Status Remove(const std::string& model) override;
  absl::StatusOr<std::map<std::string, Bytes>> All() override;

 private:
  Database& database_;
};

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_PULL_LEDGER_H_
