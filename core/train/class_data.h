// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_CLASS_DATA_H_
#define MPSD_CORE_TRAIN_CLASS_DATA_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "core/data/class_labels.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"
#include "core/train/observer.h"
#include "core/train/task_pipeline.h"

namespace mpsd::train {

// The data sets of a classification job, and the labels decided from them.
struct ClassData {
  TaskData sets;
  data::ClassLabels class_labels;
  // Files that the result's folder needs and the base model's folder lacks:
  // file name → contents.
  std::map<std::string, std::string> files;
};

// SEQ_CLS: reads tables of texts and tokenizes them. Sets config.pad_token_id
// if a decoder's config has none.
absl::StatusOr<ClassData> LoadTextClasses(const spec::TrainSpec& spec,
                                          const std::string& model_folder,
                                          spec::ModelConfig& config,
                                          Observer& observer);

// IMAGE_CLS: reads images and prepares them as the model's
// preprocessor_config.json says.
absl::StatusOr<ClassData> LoadImages(const spec::TrainSpec& spec,
                                     const std::string& model_folder,
                                     const spec::ModelConfig& config,
                                     Observer& observer);

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_CLASS_DATA_H_
