// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_UNNAMED_BLOB_H_
#define MPSD_SERVER_JOBS_UNNAMED_BLOB_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mpsd::jobs {

// A blob during its upload, by a client that tells neither hash nor size. One
// that is destroyed before Commit leaves nothing behind. One thread at a time.
class UnnamedBlob {
 public:
  virtual ~UnnamedBlob() = default;
  // ResourceExhausted when the disk is full.
  virtual absl::Status Append(std::string_view bytes) = 0;
  virtual int64_t size_bytes() const = 0;
  // Stores the blob and returns its SHA-256; durable once it returns OK. Called
  // at most once.
  virtual absl::StatusOr<std::string> Commit() = 0;
};

// Thread-safe.
class UnnamedBlobs {
 public:
  virtual ~UnnamedBlobs() = default;
  // ResourceExhausted where the disk has no room for `expected_bytes`, beside
  // what the other uploads announced. More than these may come, as long as
  // there is room.
  virtual absl::StatusOr<std::unique_ptr<UnnamedBlob>> BeginUnnamed(
      int64_t expected_bytes) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_UNNAMED_BLOB_H_
