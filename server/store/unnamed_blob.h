// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_UNNAMED_BLOB_H_
#define MPSD_SERVER_STORE_UNNAMED_BLOB_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/base/sha256.h"
#include "server/jobs/blob_store.h"
#include "server/jobs/unnamed_blob.h"
#include "server/store/database.h"
#include "server/store/disk_room.h"

namespace mpsd::store {

// Writes a file in `incoming` and hashes it meanwhile. Commit flushes the file
// and gives it its name among the blobs, unless the store has the blob.
class UnnamedBlob final : public jobs::UnnamedBlob {
 public:
  // What the blobs of a store share; all of it must outlive them. `names`: the
  // store's lock of that name.
  struct Place {
    Database& database;
    const jobs::BlobStore& store;
    absl::Mutex& names;
    DiskRoom& room;
    std::filesystem::path incoming;
  };

  static absl::StatusOr<std::unique_ptr<UnnamedBlob>> Begin(
      const Place& place, int64_t expected_bytes);
  ~UnnamedBlob() override;

  absl::Status Append(std::string_view bytes) override;
  int64_t size_bytes() const override { return written_; }
  absl::StatusOr<std::string> Commit() override;

 private:
  UnnamedBlob(const Place& place, std::filesystem::path path, int fd)
      : place_(place), path_(std::move(path)), fd_(fd) {}
  absl::Status Reserve(int64_t bytes);
  absl::Status Store(const std::string& sha256);

  const Place place_;
  const std::filesystem::path path_;
  const int fd_;
  std::vector<std::unique_ptr<DiskRoom::Reservation>> rooms_;
  int64_t reserved_ = 0;  // of the last of rooms_, that is not written yet
  int64_t written_ = 0;
  base::Sha256 hash_;
  bool committed_ = false;  // Commit was called
};

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_UNNAMED_BLOB_H_
