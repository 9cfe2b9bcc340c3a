// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_STUDY_H_
#define MPSD_CORE_STUDY_STUDY_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/report/finding.h"
#include "core/report/thresholds.h"
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

#endif  // MPSD_CORE_STUDY_STUDY_H_
