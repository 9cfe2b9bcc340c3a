// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/report/runbook.h"
#include "core/spec/train_spec.h"
#include "core/train/observer.h"
#include "core/train/run.h"
#include "core/wire/messages.h"

namespace mpsd::study {

// The input of every study.
struct Study {
  // The message <Kind>Options of proto/mpsd/v1, with the .proto's field names;
  // never null, defaults omitted.
  nlohmann::json options;
  runbook::Thresholds thresholds;
  spec::TrainSpec spec;              // of the training under study
  const train::RunContext& context;  // out_dir is the study's own folder
  train::Observer& observer;
};

// The result of a study. `result` is the message <Kind>Result.
struct Found {
  nlohmann::json result;
  std::vector<runbook::Finding> findings;
};

// Completes a finding: `worse` with `advice` if it is `bad`, else kPass.
runbook::Finding Judge(runbook::Finding finding, bool bad,
                       runbook::Verdict worse, std::string advice);

// A few steps on the longest rows; see proto/mpsd/v1/probe.proto. A job that
// runs out of memory has a result, with the verdict FAIL.
absl::StatusOr<Found> Probe(const Study& study);

// Throughput and memory by batch size; see proto/mpsd/v1/batch_sweep.proto.
// Measurements survive the end of the worker, in <out_dir>/points.jsonl.
absl::StatusOr<Found> BatchSweep(const Study& study);

// Whether a job should run on the accelerator, and whether it computes what the
// CPU does: the study of DeviceComparisonOptions in
// proto/mpsd/v1/device_comparison.proto. Both devices take the same samples in
// the same micro-batches, without dropout (each draws other masks), one device
// after the other; then they evaluate. The loader is also measured alone.
//
// FailedPrecondition if a device is missing. A device that runs out of memory
// ends the study as it ends a training.
absl::StatusOr<Found> CompareDevices(const Study& study);

// The study "profile": where the time of a step goes. Trains for some steps,
// some of them under torch's profiler (ProfilePlan), without evaluations,
// checkpoints and a result; then times the loader alone and the forward alone.
// Leaves trace.json.gz in the study's folder. Cancelled if the observer asks
// for a stop; other errors as train::Run.
absl::StatusOr<Found> Profile(const Study& study);

// Short epochs on a slice of the data; memory after each; see
// proto/mpsd/v1/smoke.proto.
absl::StatusOr<Found> Smoke(const Study& study);

// Answers prompts; see proto/mpsd/v1/generate.proto. Leaves out.jsonl in the
// study's folder.
absl::StatusOr<Found> Generate(const Study& study);

// Runs the study of `kind` with its options, as in wire::Start, and writes
// <out_dir>/result.json: the message StudyResult as JSON. Errors as train::Run;
// InvalidArgument for options out of bounds. A study that is stopped returns a
// result with `stopped` and writes nothing.
absl::StatusOr<train::RunResult> Run(wire::JobKind kind,
                                     const std::string& options,
                                     spec::TrainSpec spec,
                                     const train::RunContext& context,
                                     train::Observer& observer);

}  // namespace mpsd::study
