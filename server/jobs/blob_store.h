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
// by server/store/blob_store. A name that is no SHA-256 is never present and
// has the empty path. Thread-safe.
class BlobStore {
 public:
  virtual ~BlobStore() = default;
  // Asking for a blob keeps it: the store removes a blob that no job uses only
  // a grace after its last upload, its last Has, or the deletion of its last
  // job.
  virtual bool Has(const std::string& sha256) = 0;
  virtual std::string PathOf(const std::string& sha256) const = 0;
};

// One blob during its upload. A writer that is destroyed before Commit leaves
// nothing behind, but for one of Resume. One thread at a time.
class BlobWriter {
 public:
  virtual ~BlobWriter() = default;
  // Reads again a piece of what an earlier upload left; true where a further
  // one is to be read. Called until false before Append and Commit. An error of
  // the disk.
  virtual absl::StatusOr<bool> CatchUp() { return false; }
  // InvalidArgument once more bytes came than the client announced;
  // ResourceExhausted when the disk is full; Aborted once another writer of the
  // same user goes on with the blob.
  virtual absl::Status Append(std::string_view bytes) = 0;
  // Once Commit returns OK the blob is stored durably. InvalidArgument when the
  // size or hash differs from the announced one. Called at most once.
  virtual absl::Status Commit() = 0;
};

// Many small blobs during their upload, flushed together. A batch that is
// destroyed before Commit leaves nothing behind. One thread at a time.
class BlobBatch {
 public:
  virtual ~BlobBatch() = default;
  // InvalidArgument where `bytes` have another hash; ResourceExhausted when the
  // disk is full. The same blob may be added again.
  virtual absl::Status Add(const std::string& sha256,
                           std::string_view bytes) = 0;
  // Once Commit returns OK the blobs are stored durably. Called at most once.
  virtual absl::Status Commit() = 0;
};

// A BlobStore that takes uploads.
class BlobUploads : public BlobStore {
 public:
  // InvalidArgument for a name that is no SHA-256 or a negative size;
  // ResourceExhausted when the disk has no room for `size_bytes` beside what
  // the other writers announced. Writers of the same blob do not disturb each
  // other.
  virtual absl::StatusOr<std::unique_ptr<BlobWriter>> Begin(
      const std::string& sha256, int64_t size_bytes) = 0;
  virtual std::unique_ptr<BlobBatch> BeginBatch() = 0;
  // As Begin, but when the writer is destroyed before Commit, what came so far
  // is kept for this user and for a time, unless it cannot be the beginning of
  // the blob. The data begins at `offset_bytes`, with 0 anew. OutOfRange where
  // that is not KeptBytes. A second writer at a time of the same blob and user
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
  std::string sender = "";  // of an upload that broke off; else empty
};

// Uploads that no job, and nothing else in the state folder, has a link to, and
// uploads that broke off, which nobody sent or asked for lately. Thread-safe.
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
    int64_t parts = 0, part_bytes = 0;  // of uploads that broke off
  };
  virtual absl::StatusOr<Removed> Remove() = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_BLOB_STORE_H_
