// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_UNUSED_BLOBS_H_
#define MPSD_SERVER_JOBS_UNUSED_BLOBS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mpsd::jobs {

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

#endif  // MPSD_SERVER_JOBS_UNUSED_BLOBS_H_
