// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_BLOB_BATCH_H_
#define MPSD_SERVER_STORE_BLOB_BATCH_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/jobs/blob_store.h"
#include "server/store/connection.h"
#include "server/store/database.h"
#include "server/store/disk_room.h"

namespace mpsd::store {

// Writes blobs as files in `incoming` and closes each at once. Commit flushes
// the files together, renames them into the store's folders, flushes the
// folders together and writes all rows in one transaction. A daemon that dies
// in between leaves some of the blobs, each complete.
class BlobBatch final : public jobs::BlobBatch {
 public:
  // The borrowed objects must outlive the batch. `names`: the store's lock of
  // that name.
  BlobBatch(Database& database, const jobs::BlobStore& store,
            absl::Mutex& names, DiskRoom& room, std::filesystem::path incoming)
      : database_(database),
        store_(store),
        names_(names),
        room_(room),
        incoming_(std::move(incoming)) {}
  ~BlobBatch() override;

  absl::Status Add(const std::string& sha256, std::string_view bytes) override;
  absl::Status Commit() override;

 private:
  struct Staged {
    std::filesystem::path path;
    int64_t size_bytes = 0;
  };

  absl::Status Place();
  absl::Status Record();

  Database& database_;
  const jobs::BlobStore& store_;
  absl::Mutex& names_;
  DiskRoom& room_;
  const std::filesystem::path incoming_;
  std::map<std::string, Staged> staged_;  // by hash
  bool committed_ = false;                // Commit was called
};

// Moves a flushed file to the blob's final path, or removes the file where the
// blob is there. Adds the folders whose entries
// changed to `changed`: the caller flushes them. `names`: the store's lock.
absl::Status PlaceBlob(const std::filesystem::path& temporary,
                       const std::filesystem::path& final_path,
                       absl::Mutex& names,
                       std::set<std::filesystem::path>& changed);

// Inserts the row of a blob, unless the row exists.
void RecordBlob(Connection& c, const std::string& sha256, int64_t size_bytes)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex());

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_BLOB_BATCH_H_
