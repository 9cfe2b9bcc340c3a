// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_MODEL_USES_H_
#define MPSD_SERVER_STORE_MODEL_USES_H_

#include <map>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "server/models/model_uses.h"
#include "server/store/database.h"

namespace mpsd::store {

// models::ModelUses out of the tables jobs and model_starts.
class ModelUses final : public models::ModelUses {
 public:
  // `database` must outlive the object.
  explicit ModelUses(Database& database) : database_(database) {}

  absl::StatusOr<std::map<std::string, Use>> All() override;
  absl::StatusOr<std::set<std::string>> UnfinishedFolders() override;
  absl::StatusOr<std::set<std::string>> FoldersOf(
      const std::string& model) override;

 private:
  Database& database_;
};

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_MODEL_USES_H_
