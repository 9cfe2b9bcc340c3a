// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_WORKER_READER_WATCH_H_
#define MPSD_CORE_WORKER_READER_WATCH_H_

#include <functional>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace mpsd::worker {

// Calls `gone` once, on its own thread, when `pipe` no longer has a reader:
// mpsd, which started this process, was killed. A terminal or a file always has
// a reader. The destructor ends the watch.
class ReaderWatch {
 public:
  ReaderWatch(int pipe, absl::Duration interval, std::function<void()> gone);
  ~ReaderWatch();
  ReaderWatch(const ReaderWatch&) = delete;
  ReaderWatch& operator=(const ReaderWatch&) = delete;

 private:
  absl::Notification stop_;
  std::thread thread_;
};

}  // namespace mpsd::worker

#endif  // MPSD_CORE_WORKER_READER_WATCH_H_
