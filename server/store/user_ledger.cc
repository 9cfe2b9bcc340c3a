// SPDX-License-Identifier: Apache-2.0
#include "server/store/user_ledger.h"

#include <algorithm>
#include <numeric>

#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "server/store/database.h"

namespace mpsd::jobs {

using store::CatchSqlite;
using store::Connection;
using store::Query;
using store::Transaction;

namespace {

// Blobs read or written per lock of a connection: other readers and writers do
// not wait for all of a job with 120,000 files.
constexpr size_t kAtOnce = 500;

}  // namespace

absl::Status UploadClaim::Add(const std::string& sha256, int64_t size_bytes) {
  base::CheckAtMost(0, size_bytes, "bytes of a blob");
  // Without a limit the sum is not needed.
  if (check_) {
    absl::MutexLock lock(&ledger_.mutex_);
    ASSIGN_OR_RETURN(const int64_t stored, ledger_.Uploads(user_));
    RETURN_IF_ERROR(check_(stored + ledger_.Reserved(user_), size_bytes));
    ledger_.reserved_[user_] += size_bytes;
    reserved_ += size_bytes;
  }
  blobs_.push_back({sha256, size_bytes});
  return absl::OkStatus();
}

absl::Status UploadClaim::Commit() {
  // The rows come before the reservation ends: both may count for a moment, but
  // never neither.
  absl::Status recorded = ledger_.Record(user_, std::exchange(blobs_, {}));
  Release();
  return recorded;
}

void UploadClaim::Release() {
  if (reserved_ == 0) return;
  absl::MutexLock lock(&ledger_.mutex_);
  const auto entry = ledger_.reserved_.find(user_);
  base::Check(entry != ledger_.reserved_.end(), "what was reserved is there");
  entry->second -= std::exchange(reserved_, 0);
  if (entry->second == 0) ledger_.reserved_.erase(entry);
}

std::unique_ptr<UploadClaim> UserLedger::Begin(const std::string& user,
                                               UploadCheck check) {
  return std::make_unique<UploadClaim>(*this, user, std::move(check));
}

absl::Status UserLedger::Use(const std::string& user, const UploadCheck& check,
                             const std::set<std::string>& blobs) {
  if (blobs.empty()) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(std::vector<Blob> missing, Uncounted(user, blobs));
  if (missing.empty()) return absl::OkStatus();
  if (check) {
    ASSIGN_OR_RETURN(const int64_t stored, Uploads(user));
    const int64_t more = std::accumulate(
        missing.begin(), missing.end(), int64_t{0},
        [](int64_t sum, const Blob& blob) { return sum + blob.size_bytes; });
    RETURN_IF_ERROR(check(stored + Reserved(user), more));
  }
  return Record(user, missing);
}

absl::StatusOr<int64_t> UserLedger::Uploads(const std::string& user) {
  const int64_t kept = kept_(user);
  Connection& c = database_.reader();
  return CatchSqlite("reading a user's uploads",
                     [&]() -> absl::StatusOr<int64_t> {
                       absl::MutexLock lock(&c.mutex());
                       Query query(c,
                                   "SELECT (SELECT coalesce(sum(size_bytes), 0)"
                                   " FROM upload_bytes WHERE user = ?1) + "
                                   "(SELECT coalesce(sum(size_bytes), 0) FROM "
                                   "pulled_bytes WHERE user = ?1)",
                                   user);
                       return kept + (query.Next() ? query.Int() : 0);
                     });
}

absl::StatusOr<std::vector<UserLedger::Blob>> UserLedger::Uncounted(
    const std::string& user, const std::set<std::string>& blobs) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::vector<Blob>>;
  return CatchSqlite("reading a user's uploads", [&]() -> Result {
    std::vector<Blob> missing;
    for (auto blob = blobs.begin(); blob != blobs.end();) {
      absl::MutexLock lock(&c.mutex());
      for (size_t n = 0; n < kAtOnce && blob != blobs.end(); ++n, ++blob) {
        Query query(c,
                    "SELECT size_bytes FROM blobs WHERE sha256 = ? AND NOT "
                    "EXISTS (SELECT 1 FROM uploads WHERE user = ? AND "
                    "uploads.sha256 = blobs.sha256)",
                    *blob, user);
        if (query.Next()) missing.push_back({*blob, query.Int()});
      }
    }
    return missing;
  });
}

absl::Status UserLedger::Record(const std::string& user,
                                const std::vector<Blob>& blobs) {
  Connection& c = database_.writer();
  return CatchSqlite("counting a user's uploads", [&] {
    for (size_t begin = 0; begin < blobs.size(); begin += kAtOnce) {
      const size_t end = std::min(begin + kAtOnce, blobs.size());
      absl::MutexLock lock(&c.mutex());
      c.SetDurability(Connection::Durability::kProcess);
      Transaction transaction(c);
      for (size_t i = begin; i < end; ++i) {
        // Through table blobs: the store may have removed the blob meanwhile.
        Query(c,
              "INSERT INTO uploads (user, sha256, size_bytes) "
              "SELECT ?, sha256, size_bytes FROM blobs WHERE sha256 = ? "
              "ON CONFLICT DO NOTHING",
              user, blobs[i].sha256)
            .Run();
      }
      transaction.Commit();
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<bool> UserLedger::Holds(const std::string& user,
                                       const std::string& sha256) {
  Connection& c = database_.reader();
  return CatchSqlite("reading a user's uploads", [&]() -> absl::StatusOr<bool> {
    absl::MutexLock lock(&c.mutex());
    Query query(c, "SELECT 1 FROM uploads WHERE user = ? AND sha256 = ?", user,
                sha256);
    return query.Next();
  });
}

absl::StatusOr<UserBytes> UserLedger::BytesOf(const std::string& user) {
  ASSIGN_OR_RETURN(const int64_t uploads, Uploads(user));
  Connection& c = database_.reader();
  using Result = absl::StatusOr<UserBytes>;
  return CatchSqlite("reading a user's results", [&]() -> Result {
    UserBytes bytes{uploads, 0};
    absl::MutexLock lock(&c.mutex());
    Query jobs(c,
               "SELECT id, (SELECT coalesce(sum(size_bytes), 0) FROM "
               "checkpoints WHERE job = jobs.number) FROM jobs WHERE owner = ?",
               user);
    while (jobs.Next()) {
      const std::string id = jobs.Text();
      const int64_t checkpoints = jobs.Int();
      bytes.results += std::max(checkpoints, folders_(id));
    }
    return bytes;
  });
}

}  // namespace mpsd::jobs

namespace mpsd::models {

using store::CatchSqlite;
using store::Connection;
using store::Query;

absl::Status PullLedger::Add(const std::string& model, const std::string& user,
                             int64_t bytes) {
  Connection& c = database_.writer();
  return CatchSqlite("counting a pull", [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kProcess);
    Query(c,
          "INSERT INTO pulled_bytes (user, model, size_bytes) VALUES (?, ?, ?) "
          "ON CONFLICT (user, model) DO UPDATE SET "
          "size_bytes = size_bytes + excluded.size_bytes",
          user, model, bytes)
        .Run();
    return absl::OkStatus();
  });
}

absl::Status PullLedger::Remove(const std::string& model) {
  Connection& c = database_.writer();
  return CatchSqlite("forgetting the pulls of a model", [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kProcess);
    Query(c, "DELETE FROM pulled_bytes WHERE model = ?", model).Run();
    return absl::OkStatus();
  });
}

absl::StatusOr<std::map<std::string, PullLedger::Bytes>> PullLedger::All() {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::map<std::string, Bytes>>;
  return CatchSqlite("reading the pulls", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    std::map<std::string, Bytes> all;
    Query row(c, "SELECT model, user, size_bytes FROM pulled_bytes");
    while (row.Next()) {
      Bytes& bytes = all[row.Text()];
      const std::string user = row.Text();
      bytes[user] = row.Int();
    }
    return all;
  });
}

namespace {

constexpr char kReading[] = "reading which jobs use a model";
// A row that is no JSON names no folder.
constexpr char kFolder[] =
    "SELECT DISTINCT coalesce(json_extract(spec_json, '$.model'), '') "
    "FROM jobs WHERE json_valid(spec_json) AND ";

std::set<std::string> Texts(Query& query) {
  std::set<std::string> texts;
  while (query.Next()) texts.insert(query.Text());
  return texts;
}

}  // namespace

absl::StatusOr<std::map<std::string, ModelUses::Use>> ModelUses::All() {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::map<std::string, Use>>;
  return CatchSqlite(kReading, [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    std::map<std::string, Use> uses;
    {
      Query starts(c, "SELECT model, time_us FROM model_starts");
      while (starts.Next()) {
        const std::string model = starts.Text();
        uses[model].last_start = absl::FromUnixMicros(starts.Int());
      }
    }
    // QUEUED and RUNNING.
    Query jobs(c,
               "SELECT model, count(*) FROM jobs INDEXED BY jobs_by_model "
               "WHERE state IN (1, 2) GROUP BY model");
    while (jobs.Next()) {
      const std::string model = jobs.Text();
      uses[model].unfinished = static_cast<int32_t>(jobs.Int());
    }
    return uses;
  });
}

absl::StatusOr<std::set<std::string>> ModelUses::UnfinishedFolders() {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::set<std::string>>;
  return CatchSqlite(kReading, [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    Query query(c, std::string(kFolder) + "state IN (1, 2)");
    return Texts(query);
  });
}

absl::StatusOr<std::set<std::string>> ModelUses::FoldersOf(
    const std::string& model) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::set<std::string>>;
  return CatchSqlite(kReading, [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    Query query(c, std::string(kFolder) + "model = ?", model);
    return Texts(query);
  });
}

}  // namespace mpsd::models
