// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_WATCH_H_
#define MPSD_CLIENT_WATCH_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "client/console.h"

namespace mpsd::client {

struct WatchOptions {
  std::string id;              // a whole id
  int64_t after_sequence = 0;  // events up to it are not shown
  // How long a daemon that went away is waited for.
  absl::Duration patience = absl::Minutes(2);
};

// Prints the job's events until it ends, then what became of it (with --json
// the job as the last object). Resumes from the last event seen when the
// connection breaks. Ctrl-C leaves the job running: kDetached. Otherwise the
// code of the job's final state, or that of the failed call.
ExitCode Watch(const Console& console, const WatchOptions& options);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_WATCH_H_
