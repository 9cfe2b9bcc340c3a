// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_USER_LEDGER_H_
#define MPSD_SERVER_STORE_USER_LEDGER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/jobs/collector.h"
#include "server/jobs/user_limits.h"
#include "server/models/model_book.h"
#include "server/store/database.h"

namespace mpsd::store {

// The ledger in the tables uploads, upload_bytes, pulled_bytes and checkpoints.
// A row of table uploads comes after its blob's, in a separate transaction that
// a power cut may lose: submitting a job with the blob counts it again.
class UserLedger final : public jobs::UserLedger {
 public:
  // Bytes of a user's interrupted uploads.
  using KeptBytes = std::function<int64_t(const std::string& user)>;

  // `database` must outlive the ledger. `folders`: the last measurements.
  UserLedger(
      Database& database, std::shared_ptr<const jobs::MeasuredFolders> folders,
      KeptBytes kept = [](const std::string&) { return 0; })
      : database_(database),
        folders_(std::move(folders)),
        kept_(std::move(kept)) {}

  std::unique_ptr<jobs::UploadClaim> Begin(
      const std::string& user, const jobs::UserLimits& limits) override;
  absl::Status Use(const std::string& user, const jobs::UserLimits& limits,
                   const std::set<std::string>& blobs) override;
  absl::StatusOr<bool> Holds(const std::string& user,
                             const std::string& sha256) override;
  absl::StatusOr<jobs::UserBytes> BytesOf(const std::string& user) override;

 private:
  class Claim;
  struct Blob {
    std::string sha256;
    int64_t size_bytes = 0;
  };

  absl::StatusOr<int64_t> Uploads(const std::string& user);
  int64_t Reserved(const std::string& user)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = reserved_.find(user);
    return found == reserved_.end() ? 0 : found->second;
  }
  // Those among `blobs` that the store has and that do not count for the user.
  absl::StatusOr<std::vector<Blob>> Uncounted(
      const std::string& user, const std::set<std::string>& blobs);
  absl::Status Record(const std::string& user, const std::vector<Blob>& blobs);

  Database& database_;
  const std::shared_ptr<const jobs::MeasuredFolders> folders_;
  const KeptBytes kept_;
  // Held from reading a user's sum to the reservation or the rows based on it,
  // so that concurrent uploads cannot exceed it together.
  absl::Mutex mutex_;
  // Bytes of claims in progress, by user.
  std::map<std::string, int64_t> reserved_ ABSL_GUARDED_BY(mutex_);
};

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

// models::ModelUses from the tables jobs and model_starts.
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

#endif  // MPSD_SERVER_STORE_USER_LEDGER_H_
