// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_SPLIT_AND_LIMIT_H_
#define MPSD_CORE_TRAIN_SPLIT_AND_LIMIT_H_

#include "absl/status/status.h"
#include "core/spec/train_spec.h"
#include "core/train/task_pipeline.h"

namespace mpsd::train {

// Splits and limits the data. Without an eval set it takes validation_split off
// the training data; then it keeps the first max_…_samples of each set (the
// order of Transformers' run_glue.py: split first). InvalidArgument if a set
// would be empty.
absl::Status SplitAndLimit(const spec::TrainSpec& spec, TaskData& data);

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_SPLIT_AND_LIMIT_H_
