// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HUB_CACHE_PART_H_
#define MPSD_SERVER_HUB_CACHE_PART_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/hub/content_hash.h"
#include "server/hub/listing.h"

namespace mpsd::hub {

// A blob of the cache on its way: blobs/HASH.incomplete, which stays when the
// object goes, so that the next one goes on with it. The lock of
// huggingface_hub for the blob is held meanwhile: no two programs write the
// same part. One thread at a time.
class CachePart {
 public:
  // Whether to give up, asked between the pieces of a long read.
  using Stop = std::function<bool()>;

  // Opens or makes the part, and hashes what it holds. Aborted where another
  // program holds the lock: ask again later. Cancelled where `stop` says so.
  // Else the errors of base::ErrnoStatus.
  static absl::StatusOr<std::unique_ptr<CachePart>> Open(
      const std::filesystem::path& blob, const std::filesystem::path& lock,
      const HubFile& file, const Stop& stop = {});
  ~CachePart();
  CachePart(const CachePart&) = delete;
  CachePart& operator=(const CachePart&) = delete;

  int64_t size() const { return size_; }

  // Throws away the bytes from `offset` on; 0 or size().
  absl::Status Begin(int64_t offset);
  // DataLoss, with nothing written, beyond the file's size; ResourceExhausted
  // on a full disk.
  absl::Status Append(std::string_view bytes);
  // Makes the part the blob, durably. DataLoss, after throwing the part away,
  // where size or hash is not the file's.
  absl::Status Finish();

 private:
  CachePart(std::filesystem::path blob, const HubFile& file, int lock, int fd);
  absl::Status ReadBack(const Stop& stop);
  std::filesystem::path Path() const;

  const std::filesystem::path blob_;
  const HubFile file_;
  const int lock_;
  const int fd_;
  int64_t size_ = 0;
  std::unique_ptr<ContentHash> hash_;  // null until the old bytes are read
};

}  // namespace mpsd::hub

#endif  // MPSD_SERVER_HUB_CACHE_PART_H_
