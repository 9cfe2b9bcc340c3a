// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TEXT_WATCH_SCREEN_H_
#define MPSD_CLIENT_TEXT_WATCH_SCREEN_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "mpsd/v1/daemon.pb.h"
#include "mpsd/v1/jobs.pb.h"

namespace mpsd::client {

// What `mpsctl watch` without an id knows of the daemon.
struct Watched {
  v1::InfoResponse info;
  v1::Job job;                 // the one that runs; no id: none does
  std::vector<double> losses;  // of its steps, oldest first
  v1::QueueResponse queue;
  std::string lost;     // why the daemon does not answer; empty: it does
  absl::Time answered;  // when it did last
};

struct Viewer {
  int columns = 80;
  int rows = 24;
  bool utf8 = true;
  absl::Time now;
  absl::TimeZone zone;
};

// The lines of the screen: at most `rows` less one, none wider than `columns`,
// and nothing in them that steers the terminal, whatever names say. A small
// screen shows the job before the queue and the queue before the machine.
std::vector<std::string> WatchScreen(const Watched& watched,
                                     const Viewer& viewer);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_TEXT_WATCH_SCREEN_H_
