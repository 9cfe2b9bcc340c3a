// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_BLOB_BATCH_H_
#define MPSD_SERVER_STORE_BLOB_BATCH_H_

#include <cstdint>
#include <filesystem>
#include <map>
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

// Blobs as files in `incoming`, closed as soon as they are written; Commit
// flushes them together, renames them into the store's folders, flushes those
// together and writes all rows in one transaction. A daemon that dies between
// leaves some of the blobs, each whole.
class BlobBatch final : public jobs::BlobBatch {
 public:
  // The borrowed objects must outlive it. `names`: as of BlobStore.
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
  bool committed_ = false;                // or tried to
};

// The row of a blob, unless it is there.
void RecordBlob(Connection& c, const std::string& sha256, int64_t size_bytes)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex());

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_BLOB_BATCH_H_
