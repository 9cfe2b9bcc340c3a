// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CORE_LORA_GOLDEN_ADAPTED_MODELS_H_
#define MPSD_TESTS_CORE_LORA_GOLDEN_ADAPTED_MODELS_H_

#include <filesystem>
#include <string>

#include "core/lora/merge.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::merge {

inline std::filesystem::path GoldenFolder(const std::string& name,
                                          const std::string& part) {
  return std::filesystem::path(MPSD_TEST_SOURCE_DIR) / "tests" / "golden" /
         name / part;
}

// Golden model `name` with its adapter, into a new folder.
inline MergeOptions GoldenMerge(const std::string& name) {
  MergeOptions options;
  options.model = GoldenFolder(name, "model");
  options.adapter = GoldenFolder(name, "adapter");
  options.out = testing_support::FreshFolder("merge_" + name) / "merged";
  return options;
}

}  // namespace mpsd::merge

#endif  // MPSD_TESTS_CORE_LORA_GOLDEN_ADAPTED_MODELS_H_
