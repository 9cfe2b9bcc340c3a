// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_DISK_ROOM_H_
#define MPSD_SERVER_STORE_DISK_ROOM_H_

#include <cstdint>
#include <filesystem>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace mpsd::store {

// Shares the free bytes of a disk among the uploads under way. Each upload
// reserves its announced size or is refused at its beginning; `min_free_bytes`
// stay free for the database, logs and checkpoints. Thread-safe. The room must
// outlive its reservations.
class DiskRoom {
 public:
  DiskRoom(std::filesystem::path folder, int64_t min_free_bytes)
      : folder_(std::move(folder)), min_free_bytes_(min_free_bytes) {}

  // Bytes that an upload will write. One thread at a time.
  class Reservation {
   public:
    Reservation(DiskRoom& room, int64_t bytes) : room_(room), left_(bytes) {}
    ~Reservation() { Used(left_); }
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;
    // Notes that `bytes` more of the reservation are on the disk.
    void Used(int64_t bytes);

   private:
    DiskRoom& room_;
    int64_t left_;
  };

  // ResourceExhausted where the disk has no room for the bytes.
  absl::StatusOr<std::unique_ptr<Reservation>> Reserve(int64_t bytes);

 private:
  const std::filesystem::path folder_;
  const int64_t min_free_bytes_;
  absl::Mutex mutex_;
  int64_t reserved_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_DISK_ROOM_H_
