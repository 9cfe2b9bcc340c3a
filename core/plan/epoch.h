// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_PLAN_EPOCH_H_
#define MPSD_CORE_PLAN_EPOCH_H_

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/data/batch_shapes.h"
#include "core/plan/counted_rows.h"
#include "core/spec/train_spec.h"

namespace mpsd::plan {

// The shape of a micro-batch, with padding.
struct BatchShape {
  int64_t rows = 0;
  int64_t length = 0;  // tokens per row; 1 for images
  auto operator<=>(const BatchShape&) const = default;
};

// The micro-batches of one pass over a data set.
struct Epoch {
  int64_t steps = 0;  // optimizer steps; 0 for an evaluation
  int64_t tokens = 0;
  int64_t padded_tokens = 0;
  std::map<BatchShape, int64_t> batches;  // number of batches of this shape

  double padding_share() const;
};

// The first epoch of training as data::Loader makes it. Other epochs differ
// only in their order.
Epoch CountEpoch(CountedRows rows, const data::LoaderOptions& options);

// A whole evaluation of `rows` in the batches of data::EvalLoader.
Epoch CountEvaluation(const data::BatchShapes& shapes, CountedRows rows,
                      const CountedRows& train, int64_t micro_batch_rows,
                      int64_t max_length);

// One way to make batches from a job's rows.
struct Sampling {
  std::string name;     // as PlanSampling.name
  bool chosen = false;  // the job's choice
  std::string patch;    // of job.json, to select it
  data::LoaderOptions options;
};

// mpsd's ways for the job's task, including the job's own; `own` are the
// options of the job itself.
std::vector<Sampling> Samplings(const spec::TrainSpec& spec,
                                const data::LoaderOptions& own);

}  // namespace mpsd::plan

#endif  // MPSD_CORE_PLAN_EPOCH_H_
