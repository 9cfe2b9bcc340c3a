// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_CLASS_DATA_H_
#define MPSD_CORE_TRAIN_CLASS_DATA_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "core/data/labels.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"
#include "core/train/observer.h"
#include "core/train/task.h"

namespace mpsd::train {

// The data of a classification job, with its labels decided.
struct ClassData {
  TaskData sets;
  data::Labels labels;
  // What a model folder needs beside the weights and the base model does not
  // have: file name → contents.
  std::map<std::string, std::string> files;
};

// SEQ_CLS: tables of texts, tokenized. A decoder gets pad_token_id where its
// config has none.
absl::StatusOr<ClassData> LoadTextClasses(const spec::TrainSpec& spec,
                                          const std::string& model_folder,
                                          spec::ModelConfig& config,
                                          Observer& observer);

// IMAGE_CLS: images, prepared as the model's preprocessor_config.json says.
absl::StatusOr<ClassData> LoadImages(const spec::TrainSpec& spec,
                                     const std::string& model_folder,
                                     const spec::ModelConfig& config,
                                     Observer& observer);

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_CLASS_DATA_H_
