// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_PARTS_H_
#define MPSD_CORE_TRAIN_PARTS_H_

#include "absl/status/status.h"
#include "core/spec/train_spec.h"
#include "core/train/task.h"

namespace mpsd::train {

// Takes validation_split off the training data where there is no eval set, and
// keeps of each set the first max_…_samples (transformers, run_glue.py: the
// split comes first). InvalidArgument where a side would be empty.
absl::Status TakeParts(const spec::TrainSpec& spec, TaskData& data);

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_PARTS_H_
