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

// The free bytes of a disk, shared among uploads that are under way: each is
// given what it announced or refused at its beginning, and `min_free_bytes` are
// left for the database, logs and checkpoints. Thread-safe; outlives its
// reservations.
class DiskRoom {
 public:
  DiskRoom(std::filesystem::path folder, int64_t min_free_bytes)
      : folder_(std::move(folder)), min_free_bytes_(min_free_bytes) {}

  // Bytes that will be written. One thread at a time.
  class Reservation {
   public:
    Reservation(DiskRoom& room, int64_t bytes) : room_(room), left_(bytes) {}
    ~Reservation() { Used(left_); }
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;
    // `bytes` more of them are on the disk.
    void Used(int64_t bytes);

   private:
    DiskRoom& room_;
    int64_t left_;
  };

  // ResourceExhausted where they do not fit.
  absl::StatusOr<std::unique_ptr<Reservation>> Reserve(int64_t bytes);

 private:
  const std::filesystem::path folder_;
  const int64_t min_free_bytes_;
  absl::Mutex mutex_;
  int64_t reserved_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_DISK_ROOM_H_
