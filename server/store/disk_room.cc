// SPDX-License-Identifier: Apache-2.0
#include "server/store/disk_room.h"

#include <algorithm>
#include <limits>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace mpsd::store {
namespace {

// A disk that does not tell counts as having room: a write then fails.
int64_t FreeBytes(const std::filesystem::path& folder) {
  std::error_code error;
  const auto space = std::filesystem::space(folder, error);
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(
      error ? kMost : std::min<uint64_t>(space.available, kMost));
}

}  // namespace

void DiskRoom::Reservation::Used(int64_t bytes) {
  base::CheckAtMost(0, bytes, "bytes that were written");
  bytes = std::min(bytes, left_);
  left_ -= bytes;
  absl::MutexLock lock(&room_.mutex_);
  room_.reserved_ -= bytes;
  base::CheckAtMost(0, room_.reserved_, "bytes of all reservations");
}

absl::StatusOr<std::unique_ptr<DiskRoom::Reservation>> DiskRoom::Reserve(
    int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  // The lock comes first: an upload's bytes leave reserved_ only after their
  // write, so a race may count bytes twice but never forgets them.
  const int64_t free = FreeBytes(folder_);
  if (bytes > free - min_free_bytes_ - reserved_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "there is no room for ", bytes, " bytes: the disk of ",
        folder_.string(), " has ", free, " free, of which ", reserved_,
        " are for uploads under way and ", min_free_bytes_,
        " are kept free (mpsd --min-free-bytes); `mpsctl delete` removes jobs "
        "that have ended"));
  }
  reserved_ += bytes;
  return std::make_unique<Reservation>(*this, bytes);
}

}  // namespace mpsd::store
