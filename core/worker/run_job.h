// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/spec/train_spec.h"
#include "core/train/observer.h"
#include "core/train/run.h"
#include "core/wire/messages.h"

namespace mpsd::worker {

// Runs `work`, for train::RunContext. If an exception says that device or host
// ran out of memory (core/host/device_error.h), returns ResourceExhausted with
// its text. Other exceptions pass through.
absl::Status Attempt(const std::function<void()>& work);

// Either the run's result or why it failed.
using Outcome = std::variant<train::RunResult, wire::Failed>;

// Runs the job.json at `spec_path` into `out_dir`. Every error ends here: no
// other place catches torch's exceptions, except those of a trial that runs out
// of memory (Attempt).
Outcome RunJob(const std::filesystem::path& spec_path,
               const std::filesystem::path& out_dir, train::Observer& observer);
// Runs the study of `kind` with the options `study`, as in wire::Start;
// otherwise like RunJob.
Outcome RunStudy(wire::JobKind kind, const std::string& study,
                 const std::filesystem::path& spec_path,
                 const std::filesystem::path& out_dir,
                 train::Observer& observer);

// The job.json at `path`, with absolute paths; its errors name the file.
absl::StatusOr<spec::TrainSpec> ReadSpec(const std::filesystem::path& path);

// Turns an error of the trainer into a failure: the user's, the numbers', the
// device's (core/host/device_error.h) or the worker's. Keeps the error's errno,
// by which the daemon recognises machine faults.
wire::Failed FailureOf(const absl::Status& status);

// Turns the text of libtorch's exception into a failure. A text known to
// core/host/device_error.h gets a sentence of advice; any other is internal.
wire::Failed FailureOf(const std::string& exception_text);

// The folder for data kept between runs; created if it is missing.
std::filesystem::path CacheFolder();

std::string WorkerVersion();
std::string TorchVersion();

}  // namespace mpsd::worker
