// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_TOKEN_STORE_H_
#define MPSD_SERVER_STORE_TOKEN_STORE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/access/audit_trail.h"
#include "server/access/token_book.h"
#include "server/store/database.h"

namespace mpsd::store {

// access::Tokens over SQLite.
class TokenStore final : public access::Tokens {
 public:
  // `database` must outlive the store.
  explicit TokenStore(Database& database) : database_(database) {}

  absl::StatusOr<std::vector<access::Token>> All() override;
  absl::Status Insert(const access::Token& token) override;
  absl::Status Remove(const std::string& id) override;
  absl::Status SetLastUses(
      absl::Span<const std::pair<std::string, absl::Time>> uses) override;

 private:
  Database& database_;
};

// access::AuditStore over SQLite.
class AuditStore final : public access::AuditStore {
 public:
  // The maximum number of entries that one Prune removes.
  static constexpr int64_t kPruned = 10'000;

  // `database` must outlive the store.
  explicit AuditStore(Database& database) : database_(database) {}

  absl::StatusOr<int64_t> Append(const access::AuditEntry& entry) override;
  absl::Status SetResult(int64_t number, const absl::Status& result,
                         const std::string& job_id) override;
  absl::StatusOr<std::vector<access::AuditEntry>> List(
      const access::AuditFilter& filter) override;
  absl::StatusOr<int64_t> Prune(absl::Time time, int64_t most_entries) override;

 private:
  Database& database_;
};

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_TOKEN_STORE_H_
