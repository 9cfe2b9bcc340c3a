// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TEXT_WATCH_SCREEN_H_
#define MPSD_CLIENT_TEXT_WATCH_SCREEN_H_

#include <cstdint>
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

struct LossPoint {
  int64_t step = 0;
  double loss = 0;
};

// Draws losses by step in exactly `rows` lines of at most `columns` columns
// (but at least 5 and 20): `title`, a legend where there are both kinds and 10
// rows, the steps as a line of Braille dots, evaluations as "◆" over it, axes
// with their ends. Without UTF-8 it is ASCII. Steps rise. However many there
// are, the least and the greatest loss of each column are drawn. A loss that is
// not finite is left out, and the line is broken there.
std::vector<std::string> DrawLosses(const std::string& title,
                                    const std::vector<LossPoint>& steps,
                                    const std::vector<LossPoint>& evaluations,
                                    int columns, int rows, bool utf8);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_TEXT_WATCH_SCREEN_H_
