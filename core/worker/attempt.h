// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_WORKER_ATTEMPT_H_
#define MPSD_CORE_WORKER_ATTEMPT_H_

#include <functional>

#include "absl/status/status.h"

namespace mpsd::worker {

// Runs `work`, for train::RunContext. If an exception says that device or host
// ran out of memory (core/host/device_error.h), returns ResourceExhausted with
// its text. Other exceptions pass through.
absl::Status Attempt(const std::function<void()>& work);

}  // namespace mpsd::worker

#endif  // MPSD_CORE_WORKER_ATTEMPT_H_
