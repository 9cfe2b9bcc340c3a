// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_TOKEN_STORE_H_
#define MPSD_SERVER_STORE_TOKEN_STORE_H_

#include <string>
#include <utility>
#include <vector>

#include "server/access/tokens.h"
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

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_TOKEN_STORE_H_
