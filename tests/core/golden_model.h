// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "core/ckpt/safetensors.h"
#include "core/model/decoder.h"
#include "core/spec/model_config.h"
#include "tests/core/scratch_folder.h"

namespace mpsd {
inline namespace testing_support {

// tests/golden/<name>/<part>.
inline fs::path Golden(const std::string& name, const std::string& part) {
  return fs::path(MPSD_TEST_SOURCE_DIR) / "tests/golden" / name / part;
}

inline std::unique_ptr<model::Decoder> LoadGolden(const std::string& name) {
  const std::string folder = Golden(name, "model").string();
  auto config = spec::ReadModelConfig(folder).value();
  auto weights = tensorfile::Weights::Open(folder).value();
  return model::Decoder::Load(*weights, config, at::kCPU, at::kFloat).value();
}

}  // namespace testing_support
}  // namespace mpsd
