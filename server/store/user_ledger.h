// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace mpsd::store {
class Database;
}  // namespace mpsd::store

// What users have, and which jobs use which models.

namespace mpsd::jobs {

// Whether `more` bytes may be added to the `bytes` of uploads that a user has;
// empty: any number may.
using UploadCheck = std::function<absl::Status(int64_t bytes, int64_t more)>;

// What a user has in the state folder, in bytes.
struct UserBytes {
  int64_t uploads = 0;  // and what its pulls wrote into the models' cache
  int64_t results = 0;
};

class UploadClaim;

// Counts what each user has. A blob counts in full for each user who sent it or
// whose jobs were submitted with it, until the blob store removes the blob; a
// pulled model for the user who pulled it.
// Results are the folders of a user's jobs: as last measured, or the sum of the
// job's checkpoints if that is more. Thread-safe.
//
// A row of table uploads comes after its blob's, in a separate transaction that
// a power cut may lose: submitting a job with the blob counts it again.
class UserLedger {
 public:
  // The bytes of a user's interrupted uploads, or of a job's folder.
  using BytesBy = std::function<int64_t(const std::string& name)>;
  static int64_t None(const std::string&) { return 0; }

  // `database` must outlive the ledger. `folders`: the last measurements.
  explicit UserLedger(store::Database& database, BytesBy folders = None,
                      BytesBy kept = None)
      : database_(database),
        folders_(std::move(folders)),
        kept_(std::move(kept)) {}

  // The claim must not outlive the ledger.
  std::unique_ptr<UploadClaim> Begin(const std::string& user,
                                     UploadCheck check);
  // Counts blobs that the store has for the user of a submission; the check's
  // error, with nothing counted, if they are too many.
  absl::Status Use(const std::string& user, const UploadCheck& check,
                   const std::set<std::string>& blobs);
  // Whether the blob counts for the user.
  absl::StatusOr<bool> Holds(const std::string& user,
                             const std::string& sha256);
  absl::StatusOr<UserBytes> BytesOf(const std::string& user);

 private:
  friend class UploadClaim;
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

  store::Database& database_;
  const BytesBy folders_;
  const BytesBy kept_;
  // Held from reading a user's sum to the reservation or the rows based on it,
  // so that concurrent uploads cannot exceed it together.
  absl::Mutex mutex_;
  // Bytes of claims in progress, by user.
  std::map<std::string, int64_t> reserved_ ABSL_GUARDED_BY(mutex_);
};

// Blobs that a user sends, while they arrive. A claim destroyed before Commit
// does not count. One thread at a time.
class UploadClaim {
 public:
  UploadClaim(UserLedger& ledger, std::string user, UploadCheck check)
      : ledger_(ledger), user_(std::move(user)), check_(std::move(check)) {}
  ~UploadClaim() { Release(); }
  UploadClaim(const UploadClaim&) = delete;
  UploadClaim& operator=(const UploadClaim&) = delete;

  // Called before bytes of a blob are accepted: `size_bytes` of them arrive.
  // The check's error if they would be too many in addition to what the user
  // has and sends meanwhile.
  absl::Status Add(const std::string& sha256, int64_t size_bytes);
  // Counts the blobs, which the store has by now.
  absl::Status Commit();

 private:
  void Release();

  UserLedger& ledger_;
  const std::string user_;
  const UploadCheck check_;
  std::vector<UserLedger::Blob> blobs_;
  int64_t reserved_ = 0;
};

}  // namespace mpsd::jobs

namespace mpsd::models {

// The bytes that each user's pulls wrote, which count among the user's uploads
// until the model is removed. Thread-safe.
class PullLedger {
 public:
  using Bytes = std::map<std::string, int64_t>;  // by user

  // `database` must outlive the ledger.
  explicit PullLedger(store::Database& database) : database_(database) {}

  absl::Status Add(const std::string& model, const std::string& user,
                   int64_t bytes);
  absl::Status Remove(const std::string& model);
  // By model.
  absl::StatusOr<std::map<std::string, Bytes>> All();

 private:
  store::Database& database_;
};

// Which jobs use which models. Thread-safe.
class ModelUses {
 public:
  struct Use {
    std::optional<absl::Time> last_start;  // of a job
    int32_t unfinished = 0;                // jobs that have not ended
  };

  // `database` must outlive the object.
  explicit ModelUses(store::Database& database) : database_(database) {}

  // By its name in job.json; models that no job used are omitted.
  absl::StatusOr<std::map<std::string, Use>> All();
  // The models' folders of the jobs that have not ended.
  absl::StatusOr<std::set<std::string>> UnfinishedFolders();
  // The folders that jobs in any state have for the model.
  absl::StatusOr<std::set<std::string>> FoldersOf(const std::string& model);

 private:
  store::Database& database_;
};

}  // namespace mpsd::models
