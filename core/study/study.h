// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_STUDY_H_
#define MPSD_CORE_STUDY_STUDY_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/runbook/finding.h"
#include "core/runbook/thresholds.h"
#include "core/spec/train_spec.h"
#include "core/train/observer.h"
#include "core/train/run.h"
#include "core/wire/messages.h"

namespace mpsd::study {

// What every study is given.
struct Study {
  // The message <Kind>Options of proto/mpsd/v1, fields spelt as the .proto
  // spells them; never null, defaults left out.
  nlohmann::json options;
  runbook::Thresholds thresholds;
  spec::TrainSpec spec;              // of the training that is looked at
  const train::RunContext& context;  // out_dir: the study's own folder
  train::Observer& observer;
};

// What a study found. `result` is the message <Kind>Result.
struct Found {
  nlohmann::json result;
  std::vector<runbook::Finding> findings;
};

// Runs the study of `kind` with its options, as wire::Start has them, and
// writes <out_dir>/result.json: the message StudyResult as JSON. Errors as
// train::Run; InvalidArgument for options out of their bounds. A study that is
// stopped returns a result with `stopped` and writes nothing.
absl::StatusOr<train::RunResult> Run(wire::JobKind kind,
                                     const std::string& options,
                                     spec::TrainSpec spec,
                                     const train::RunContext& context,
                                     train::Observer& observer);

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_STUDY_H_
