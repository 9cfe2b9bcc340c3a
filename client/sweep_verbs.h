// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_SWEEP_VERBS_H_
#define MPSD_CLIENT_SWEEP_VERBS_H_

#include <string>

#include "client/command_line.h"
#include "client/verbs.h"

namespace mpsd::client {

// The positional argument that is a sweep's id.
inline constexpr char kSweepName[] = "SWEEP";

// `mpsctl sweep list`, `sweep show` and `sweep cancel`: adds them to `sweep`.
void AddSweepVerbs(Command& sweep, Action* action);

// Whether the daemon has a sweep with this whole id.
bool IsSweep(const Console& console, const std::string& id);

// Cancels every job of the sweep that has not ended, and says so.
ExitCode CancelSweep(const Console& console, const std::string& id);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_SWEEP_VERBS_H_
