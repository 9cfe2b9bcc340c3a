// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CORE_MODEL_GOLDEN_H_
#define MPSD_TESTS_CORE_MODEL_GOLDEN_H_

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include "core/ckpt/safetensors.h"

namespace mpsd::quant {

// What bitsandbytes made: tests/golden/quant.py.
inline const tensorfile::SafetensorsFile& Golden() {
  static const auto& file = *new std::unique_ptr<tensorfile::SafetensorsFile>(
      tensorfile::SafetensorsFile::Open(std::string(MPSD_TEST_SOURCE_DIR) +
                                        "/tests/golden/quant.safetensors")
          .value());
  return *file;
}

inline at::Tensor Golden(const std::string& name) {
  return Golden().Load(name).value();
}

inline const std::vector<std::string>& GoldenWeights() {
  static const auto& names =
      *new std::vector<std::string>{"plain", "uneven", "rest", "many"};
  return names;
}

}  // namespace mpsd::quant

#endif  // MPSD_TESTS_CORE_MODEL_GOLDEN_H_
