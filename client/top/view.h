// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TOP_VIEW_H_
#define MPSD_CLIENT_TOP_VIEW_H_

#include "absl/time/time.h"
#include "client/top/frame.h"
#include "client/top/model.h"

namespace mpsd::client::top {

// The smallest screen that shows jobs; a smaller one says so.
inline constexpr Size kSmallest = {80, 24};

struct Viewer {
  Size size;
  bool utf8 = true;
  absl::Time now;
  absl::TimeZone zone = absl::UTCTimeZone();
};

// What the model looks like on the viewer's screen.
Frame Render(const Model& model, const Viewer& viewer);

// How many jobs, or lines of a log, such a screen shows; at least 1.
int PageOf(const Model& model, const Viewer& viewer);

}  // namespace mpsd::client::top

#endif  // MPSD_CLIENT_TOP_VIEW_H_
