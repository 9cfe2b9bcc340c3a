// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_DESCRIBE_H_
#define MPSD_CORE_TRAIN_DESCRIBE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"
#include "core/train/observer.h"

namespace mpsd::train {

// A job whose spec fits the model's config, checked without a device.
struct Described {
  std::string model_folder;
  spec::ModelConfig config;  // as read from `model_folder`
  // With an adapter's settings and LoRA's defaults filled in.
  std::unique_ptr<spec::TrainSpec> spec;
};

// Errors are those of the model's folder, and of a spec that does not fit
// config.json. Reports fields without effect to `observer`.
absl::StatusOr<Described> Describe(spec::TrainSpec spec, Observer& observer);

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_DESCRIBE_H_
