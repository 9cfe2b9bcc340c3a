// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TOP_LOOP_H_
#define MPSD_CLIENT_TOP_LOOP_H_

#include "absl/time/time.h"
#include "client/top/model.h"
#include "client/top/screen.h"
#include "client/top/update.h"
#include "core/base/clock.h"

namespace mpsd::client::top {

struct Ending {
  enum Why { kQuit, kInterrupt, kSignal };
  Why why = kQuit;
  int signal = 0;  // of kSignal
};

// Shows the model, and hands it keys and updates, until a key or a signal ends
// it. Answers each key at once; draws for updates at most ten times a second,
// and once a second for the clock. Waits for nothing but the screen.
Ending Loop(Model& model, Screen& screen, Source& source,
            const base::Clock& clock, absl::TimeZone zone);

}  // namespace mpsd::client::top

#endif  // MPSD_CLIENT_TOP_LOOP_H_
