// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/spec/model_config.h"

namespace mpsd::bench {

// config.json of a real model's shape, for random weights: "llama7b",
// "qwen0.5b", "smol135m", "tiny". InvalidArgument lists them.
absl::StatusOr<spec::ModelConfig> ConfigOf(const std::string& shape);

}  // namespace mpsd::bench
