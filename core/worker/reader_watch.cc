// SPDX-License-Identifier: Apache-2.0
#include "core/worker/reader_watch.h"

#include <poll.h>

#include <utility>

namespace mpsd::worker {
namespace {

bool HasReader(int pipe) {
  pollfd asked{pipe, /*events=*/0, /*revents=*/0};
  if (poll(&asked, 1, /*timeout=*/0) <= 0) return true;
  return (asked.revents & (POLLERR | POLLHUP | POLLNVAL)) == 0;
}

}  // namespace

ReaderWatch::ReaderWatch(int pipe, absl::Duration interval,
                         std::function<void()> gone)
    : thread_([this, pipe, interval, gone = std::move(gone)] {
        while (!stop_.WaitForNotificationWithTimeout(interval)) {
          if (HasReader(pipe)) continue;
          gone();
          return;
        }
      }) {}

ReaderWatch::~ReaderWatch() {
  stop_.Notify();
  thread_.join();
}

}  // namespace mpsd::worker
