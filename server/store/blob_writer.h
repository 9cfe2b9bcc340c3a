// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_BLOB_WRITER_H_
#define MPSD_SERVER_STORE_BLOB_WRITER_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/base/sha256.h"
#include "server/jobs/blob_store.h"
#include "server/store/blob_store.h"
#include "server/store/connection.h"
#include "server/store/database.h"

namespace mpsd::store {

// Writes one blob to a new file or to a part that is kept when the upload is
// interrupted. Commit verifies the whole file, flushes it and moves it to its
// place.
class BlobWriter final : public jobs::BlobWriter {
 public:
  struct Plan {
    std::filesystem::path final_path;  // …/ab/<sha256>
    int64_t size_bytes = 0;
    int64_t offset_bytes = 0;  // bytes that the part has already
    std::unique_ptr<DiskRoom::Reservation> room;  // for the bytes that arrive
    std::unique_ptr<PartialBlobs::Hold> part;     // null: nothing is kept
    std::filesystem::path temporary;  // without a part: a file to make
  };

  // `names`: the store's lock of that name. Both must outlive the writer.
  static absl::StatusOr<std::unique_ptr<BlobWriter>> Begin(Database& database,
                                                           absl::Mutex& names,
                                                           Plan plan);
  ~BlobWriter() override;

  absl::StatusOr<bool> CatchUp() override;
  absl::Status Append(std::string_view bytes) override;
  absl::Status Commit() override;

 private:
  BlobWriter(Database& database, absl::Mutex& names, Plan plan, int fd);
  const std::filesystem::path& path() const;
  // Writes all bytes; those that reached the disk are in `written`.
  absl::Status Write(std::string_view bytes, int64_t& written);
  // `status`, for which the received bytes are discarded.
  absl::Status Drop(absl::Status status);
  absl::Status Verify();
  absl::Status Place();

  Database& database_;
  absl::Mutex& names_;
  const Plan plan_;
  const int fd_;
  base::Sha256 hash_;
  int64_t hashed_ = 0;
  int64_t written_;
  bool committed_ = false;
};

// Writes blobs as files in `incoming` and closes each at once. Commit flushes
// the files together, renames them into the store's folders, flushes the
// folders together and writes all rows in one transaction. A daemon that dies
// in between leaves some of the blobs, each complete.
class BlobBatch final : public jobs::BlobBatch {
 public:
  // The dependencies must outlive the batch. `names`: the store's lock of that
  // name.
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

// Moves a flushed file to the blob's final path, or removes the file if the
// blob exists. Adds the folders whose entries changed to `changed`: the caller
// flushes them. `names`: the store's lock.
absl::Status PlaceBlob(const std::filesystem::path& temporary,
                       const std::filesystem::path& final_path,
                       absl::Mutex& names,
                       std::set<std::filesystem::path>& changed);

// Inserts the row of a blob, unless the row exists.
void RecordBlob(Connection& c, const std::string& sha256, int64_t size_bytes)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex());

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_BLOB_WRITER_H_
