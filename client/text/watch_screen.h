// SPDX-License-Identifier: Apache-2.0
#pragma once

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
  v1::Job job;                 // the running one; no id: none runs
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
// without characters that control the terminal, even in names. A small screen
// prefers the job to the queue and the queue to the machine.
std::vector<std::string> WatchScreen(const Watched& watched,
                                     const Viewer& viewer);

struct LossPoint {
  int64_t step = 0;
  double loss = 0;
};

// Draws losses by step in exactly `rows` lines of at most `columns` columns
// (but at least 5 and 20): `title`, a legend if there are both kinds and 10
// rows, the steps as a line of Braille dots, evaluations as "◆" over it, axes
// with their limits. Without UTF-8 it is ASCII. Steps increase. The least and
// the greatest loss of each column are always drawn. A non-finite loss is
// omitted and breaks the line.
std::vector<std::string> DrawLosses(const std::string& title,
                                    const std::vector<LossPoint>& steps,
                                    const std::vector<LossPoint>& evaluations,
                                    int columns, int rows, bool utf8);

}  // namespace mpsd::client
