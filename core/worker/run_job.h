// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_WORKER_RUN_JOB_H_
#define MPSD_CORE_WORKER_RUN_JOB_H_

#include <filesystem>
#include <string>
#include <variant>

#include "core/train/observer.h"
#include "core/train/trainer.h"
#include "core/wire/messages.h"

namespace mpsd::worker {

// Either what the run gave or why it failed.
using Outcome = std::variant<train::RunResult, wire::Failed>;

// Runs job.json at `spec_path` into `out_dir`. Every error ends here: this is
// the one place where torch's exceptions are caught, but for a trial's that ran
// out of memory (attempt.h).
Outcome RunJob(const std::filesystem::path& spec_path,
               const std::filesystem::path& out_dir, train::Observer& observer);

// The failure that an error of the trainer is: the user's, the numbers', the
// device's (core/host/device_error.h) or the worker's; with the errno that it
// came of, by which the daemon tells the machine's faults.
wire::Failed FailureOf(const absl::Status& status);

// Of an exception's text out of libtorch, by core/host/device_error.h: with a
// sentence of what to do where it is known, else internal.
wire::Failed FailureOf(const std::string& exception_text);

// For what is worth keeping between runs; made if need be.
std::filesystem::path CacheFolder();

std::string WorkerVersion();
std::string TorchVersion();

}  // namespace mpsd::worker

#endif  // MPSD_CORE_WORKER_RUN_JOB_H_
