// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_BLOB_STORE_H_
#define MPSD_SERVER_JOBS_BLOB_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mpsd::jobs {

// Whether `text` is 64 lower-case hexadecimal digits.
inline bool IsSha256(std::string_view text) {
  return text.size() == 64 &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Content-addressed files, each named by the SHA-256 of its bytes; implemented
// by server/store/blob_store. A name that is not a SHA-256 is never present and
// has the empty path. Thread-safe.
class BlobStore {
 public:
  virtual ~BlobStore() = default;
  // Calling Has for a blob keeps it: the store removes an unused blob only a
  // grace period after its last upload, its last Has, or the deletion of its
  // last job.
  virtual bool Has(const std::string& sha256) = 0;
  virtual std::string PathOf(const std::string& sha256) const = 0;
};

// One blob during its upload. A writer destroyed before Commit leaves nothing
// behind, except one of Resume. One thread at a time.
class BlobWriter {
 public:
  virtual ~BlobWriter() = default;
  // Reads again a piece of what an earlier upload left; true if there is
  // another one to read. Called until false before Append and Commit. Returns
  // errors of the disk.
  virtual absl::StatusOr<bool> CatchUp() { return false; }
  // InvalidArgument if there are more bytes than the client announced;
  // ResourceExhausted if the disk is full; Aborted once another writer of the
  // same user continues the blob.
  virtual absl::Status Append(std::string_view bytes) = 0;
  // Once Commit returns OK the blob is stored durably. InvalidArgument if the
  // size or hash differs from the announced one. Called at most once.
  virtual absl::Status Commit() = 0;
};

// Many small blobs during their upload, flushed together. A batch destroyed
// before Commit leaves nothing behind. One thread at a time.
class BlobBatch {
 public:
  virtual ~BlobBatch() = default;
  // InvalidArgument if `bytes` have another hash; ResourceExhausted if the disk
  // is full. The same blob may be added again.
  virtual absl::Status Add(const std::string& sha256,
                           std::string_view bytes) = 0;
  // Once Commit returns OK the blobs are stored durably. Called at most once.
  virtual absl::Status Commit() = 0;
};

// A BlobStore that takes uploads.
class BlobUploads : public BlobStore {
 public:
  // InvalidArgument for a name that is not a SHA-256 or a negative size;
  // ResourceExhausted if the disk has no space for `size_bytes` in addition to
  // what the other writers announced. Writers of the same blob do not disturb
  // each other.
  virtual absl::StatusOr<std::unique_ptr<BlobWriter>> Begin(
      const std::string& sha256, int64_t size_bytes) = 0;
  virtual std::unique_ptr<BlobBatch> BeginBatch() = 0;
  // As Begin, but if the writer is destroyed before Commit, what has arrived is
  // kept for this user for a time, unless it cannot be the beginning of the
  // blob. The data begins at `offset_bytes`, 0 to start over. OutOfRange if
  // that is not KeptBytes. A second concurrent writer of the same blob and user
  // keeps nothing; one that was silent for long gives way.
  virtual absl::StatusOr<std::unique_ptr<BlobWriter>> Resume(
      const std::string& user, const std::string& sha256, int64_t size_bytes,
      int64_t offset_bytes) = 0;
  // How much of the blob is kept for the user.
  virtual int64_t KeptBytes(const std::string& user,
                            const std::string& sha256) = 0;
};

struct UnusedBlob {
  std::string sha256;
  int64_t size_bytes = 0;
  std::string sender = "";  // of an interrupted upload; else empty
};

// Uploads to which no job and nothing else in the state folder has a link, and
// interrupted uploads, if not sent or requested recently. Thread-safe.
// Implemented over store::BlobStore.
class UnusedBlobs {
 public:
  virtual ~UnusedBlobs() = default;
  // The largest first, at most `limit`; those beyond are counted in `more` and
  // `more_bytes`.
  struct Found {
    std::vector<UnusedBlob> blobs;
    int64_t more = 0, more_bytes = 0;
  };
  virtual absl::StatusOr<Found> Find(size_t limit) = 0;
  struct Removed {
    int64_t blobs = 0, bytes = 0;
    int64_t parts = 0, part_bytes = 0;  // of interrupted uploads
  };
  virtual absl::StatusOr<Removed> Remove() = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_BLOB_STORE_H_
