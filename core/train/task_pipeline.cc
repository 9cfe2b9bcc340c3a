// SPDX-License-Identifier: Apache-2.0
#include "core/train/task_pipeline.h"

#include "core/train/classification.h"
#include "core/train/language_modelling.h"

namespace mpsd::train {

std::unique_ptr<TaskPipeline> TaskPipeline::Make(const spec::TrainSpec& spec) {
  if (spec.task == spec::Task::kCausalLm) {
    return std::make_unique<LanguageModelling>(spec);
  }
  return std::make_unique<Classification>(spec);
}

}  // namespace mpsd::train
