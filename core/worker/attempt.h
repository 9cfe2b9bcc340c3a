// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_WORKER_ATTEMPT_H_
#define MPSD_CORE_WORKER_ATTEMPT_H_

#include <functional>

#include "absl/status/status.h"

namespace mpsd::worker {

// Runs `work`, for train::TrainerOptions: ResourceExhausted with the text of
// what was thrown where device or host had not the memory that it needed
// (core/host/device_error.h). Every other exception passes through.
absl::Status Attempt(const std::function<void()>& work);

}  // namespace mpsd::worker

#endif  // MPSD_CORE_WORKER_ATTEMPT_H_
