// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/journal.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace mpsd::jobs {

void Journal::Add(std::string id, std::string line) {
  {
    absl::MutexLock lock(&mutex_);
    if (waiting_.size() < kMostWaiting) {
      waiting_.push_back({std::move(id), std::move(line)});
    } else {
      ++dropped_;
    }
  }
  relay_.Ask();
}

void Journal::Write() {
  relay_.Run([this] { WriteWaiting(); });
}

void Journal::WriteWaiting() {
  std::deque<Line> lines;
  int64_t dropped = 0;
  {
    absl::MutexLock lock(&mutex_);
    lines.swap(waiting_);
    dropped = std::exchange(dropped_, 0);
  }
  // Without the lock: a hanging log blocks only this thread, and Add() stays
  // quick for the others.
  for (const Line& line : lines) sink_(line.id, line.text);
  if (dropped > 0) {
    sink_("", absl::StrCat(dropped, " lines are missing here: the log hung"));
  }
}

}  // namespace mpsd::jobs
