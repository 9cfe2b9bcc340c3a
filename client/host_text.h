// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_HOST_TEXT_H_
#define MPSD_CLIENT_HOST_TEXT_H_

#include <string>

#include "absl/time/time.h"
#include "mpsd/v1/daemon.pb.h"
#include "mpsd/v1/jobs.pb.h"

// The machine that jobs share with people, as people read it.
namespace mpsd::client {

// "battery 62%, heat nominal, memory pressure normal, 1.2 GB swap …"; empty for
// a machine that says nothing.
std::string HostText(const v1::HostReading& host);

// "held for 2m05s: on battery"; empty where nothing keeps from training.
std::string PauseText(const v1::Pause& pause, absl::Time now);

// "aten::a 12 times, aten::b 1 time"; empty for none.
std::string FallbackText(const v1::Progress& progress);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_HOST_TEXT_H_
