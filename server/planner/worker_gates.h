// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PLANNER_WORKER_GATES_H_
#define MPSD_SERVER_PLANNER_WORKER_GATES_H_

#include <filesystem>
#include <optional>
#include <string_view>

#include "absl/time/time.h"
#include "server/planner/doctor_facts.h"

namespace mpsd::doctor {

// Reads the output of `mpsd-worker --gates`: any number of lines of JSON. Skips
// lines that are not objects, and members of another type: the output of a
// killed worker may end anywhere. Texts are cut and escaped. `end` is kDone, or
// kNoSense if the output lacks the versions or the product.
WorkerGates ParseGates(std::string_view output);

// The same, including how the worker ended: `status` as of waitpid, nullopt if
// it was killed after `limit`.
WorkerGates ReadGates(std::string_view output, std::optional<int> status,
                      absl::Duration limit);

// The verdict that the worker wrote (core/selftest/selftest.h, which needs
// torch) and when: kPassed or kFailed; kNotTold if there is no valid file.
Selftest ReadSelftest(const std::filesystem::path& path);

}  // namespace mpsd::doctor

#endif  // MPSD_SERVER_PLANNER_WORKER_GATES_H_
