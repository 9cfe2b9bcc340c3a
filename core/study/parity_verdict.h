// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_PARITY_VERDICT_H_
#define MPSD_CORE_STUDY_PARITY_VERDICT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/runbook/finding.h"
#include "core/runbook/parity_trace.h"
#include "core/runbook/thresholds.h"
#include "core/study/tensor_delta.h"

namespace mpsd::study {

using runbook::ParityTrace;
using runbook::RecordedRun;

// A line of the table of losses; see the message ParityStep.
struct ParityStep {
  int64_t step = 0;
  double loss = 0, reference_loss = 0;
  double difference = 0;  // of the losses, relative to the larger one
  std::optional<double> grad_norm = {}, reference_grad_norm = {};
};

struct ParityVerdict {
  std::string dtype;  // whose tolerances count: bf16's if either side has it
  std::vector<ParityStep> steps;
  double reference_metric = 0;  // set where both sides have the metric
  bool metric_compared = false;
  std::vector<runbook::Finding> findings;
};

// |a − b| / max(|a|, |b|); 0 for equal numbers.
double RelativeDifference(double a, double b);

// Compares two runs of mpsd; `deltas` has the tensors of both, as far as they
// could be compared. Steps count as far as both sides have them.
ParityVerdict JudgeTraces(const ParityTrace& run, const ParityTrace& reference,
                          const DeltaTable& deltas,
                          const runbook::Thresholds& thresholds);

// Compares a run with what another wrote down. `label_tokens`: of each step of
// the run. `metric`: the run's value of recorded.metric after
// recorded.metric_step; absent where it has none. `has_dropout`: the job draws
// random masks in its steps.
ParityVerdict JudgeRecorded(const ParityTrace& run,
                            const std::vector<int64_t>& label_tokens,
                            const RecordedRun& recorded,
                            const std::optional<double>& metric,
                            bool has_dropout,
                            const runbook::Thresholds& thresholds);

// Half a unit of the last decimal that losses were written with, 4 decimals or
// fewer (Transformers rounds to 4); 0 for any that have more.
double RoundingOf(const std::vector<double>& losses);

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_PARITY_VERDICT_H_
