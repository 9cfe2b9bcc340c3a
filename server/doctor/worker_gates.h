// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_DOCTOR_WORKER_GATES_H_
#define MPSD_SERVER_DOCTOR_WORKER_GATES_H_

#include <filesystem>
#include <optional>
#include <string_view>

#include "absl/time/time.h"
#include "server/doctor/facts.h"

namespace mpsd::doctor {

// Reads what `mpsd-worker --gates` printed: lines of JSON, any number of them.
// Lines that are no object, and members of another type, are passed over: the
// output of a worker that was killed ends anywhere. Texts are cut and escaped.
// `end` is kDone, or kNoSense where the output lacks the versions or the
// product.
WorkerGates ParseGates(std::string_view output);

// The same with how the worker ended: `status` as waitpid gives it, nullopt
// where it was killed after `limit`.
WorkerGates ReadGates(std::string_view output, std::optional<int> status,
                      absl::Duration limit);

// The verdict that the worker wrote (core/selftest/verdict.h, which needs
// torch) and when: kPassed or kFailed; kNotTold where there is no file that
// makes sense.
Selftest ReadSelftest(const std::filesystem::path& path);

}  // namespace mpsd::doctor

#endif  // MPSD_SERVER_DOCTOR_WORKER_GATES_H_
