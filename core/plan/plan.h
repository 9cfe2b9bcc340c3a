// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/host/traits.h"
#include "core/plan/facts.h"
#include "core/plan/needs.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

namespace mpsd::plan {

// A job with counted data.
struct PlannedJob {
  const spec::TrainSpec& spec;     // LoRA's defaults filled in
  const spec::ModelConfig& model;  // with the values that the data determine
  std::string model_folder;        // absolute
  JobRows rows;                    // `train` must be set and have a row
  backend::Choice device;          // that it would run on
  const Facts& facts;
  // The warm-up of a run of this many steps, in steps.
  std::function<int64_t(int64_t total_steps)> warmup_steps;
  // What a run would warn of before its first step.
  std::vector<std::string> warnings = {};
};

// The message Plan of proto/mpsd/v1/plan.proto as JSON, with the .proto's field
// names, without `queue`. Opens no device and no file.
nlohmann::json MakePlan(const PlannedJob& job);

}  // namespace mpsd::plan
