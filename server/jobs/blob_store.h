// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_BLOB_STORE_H_
#define MPSD_SERVER_JOBS_BLOB_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mpsd::jobs {

// 64 lower-case hexadecimal digits.
inline bool IsSha256(std::string_view text) {
  return text.size() == 64 &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Content-addressed files, implemented by server/store/blob_store; named by the
// SHA-256 of their bytes. What is no SHA-256 is not there and has the empty
// path. Thread-safe.
class BlobStore {
 public:
  virtual ~BlobStore() = default;
  // Asking for a blob keeps it: one that no job uses goes a grace after it was
  // last uploaded, asked for, or dropped by a job that was deleted.
  virtual bool Has(const std::string& sha256) = 0;
  virtual std::string PathOf(const std::string& sha256) const = 0;
};

// One blob on its way in. Destroyed before Commit, it leaves nothing behind.
// One thread at a time.
class BlobWriter {
 public:
  virtual ~BlobWriter() = default;
  // InvalidArgument once more bytes came than were announced;
  // ResourceExhausted when the disk is full.
  virtual absl::Status Append(std::string_view bytes) = 0;
  // The blob is there, durably, from OK on. InvalidArgument when size or hash
  // are not what was announced. At most once.
  virtual absl::Status Commit() = 0;
};

// Many small blobs on their way in, flushed together. Destroyed before Commit,
// it leaves nothing behind. One thread at a time.
class BlobBatch {
 public:
  virtual ~BlobBatch() = default;
  // InvalidArgument where the hash of `bytes` is another; ResourceExhausted
  // when the disk is full. The same blob may come again.
  virtual absl::Status Add(const std::string& sha256,
                           std::string_view bytes) = 0;
  // The blobs are there, durably, from OK on. At most once.
  virtual absl::Status Commit() = 0;
};

// A BlobStore that takes uploads.
class BlobUploads : public BlobStore {
 public:
  // InvalidArgument for a name that is no SHA-256 or a negative size;
  // ResourceExhausted when the disk has no room for `size_bytes` beside what
  // the other writers will need. Writers of the same blob do not disturb each
  // other.
  virtual absl::StatusOr<std::unique_ptr<BlobWriter>> Begin(
      const std::string& sha256, int64_t size_bytes) = 0;
  virtual std::unique_ptr<BlobBatch> BeginBatch() = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_BLOB_STORE_H_
