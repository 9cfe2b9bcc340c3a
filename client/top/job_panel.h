// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TOP_JOB_PANEL_H_
#define MPSD_CLIENT_TOP_JOB_PANEL_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/top/frame.h"
#include "client/top/model.h"

namespace mpsd::client::top {

// A line of a screen in one look.
struct Line {
  std::string text;
  Look look = Look::kPlain;
};

// What stands above the curve: the job and its state, its progress, its speed,
// its memory, and why it waits or how it ended.
std::vector<Line> JobLines(const Watched& watched, bool pinned, int columns,
                           bool utf8, absl::Time now, absl::TimeZone zone);

// The job's losses, in `rows` lines of at most `columns` characters; empty
// where there is no loss yet, or fewer rows or columns than a chart needs.
std::vector<std::string> CurveLines(const Watched& watched, int columns,
                                    int rows, bool utf8);

// "████░░░░": `share` of 1, in `columns` characters.
std::string Gauge(double share, int columns, bool utf8);

}  // namespace mpsd::client::top

#endif  // MPSD_CLIENT_TOP_JOB_PANEL_H_
