// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_OPS_MODELS_H_
#define MPSD_TESTS_OPS_MODELS_H_

#include <filesystem>

#include "nlohmann/json.hpp"

namespace mpsd::ops {

// A model folder with random weights in fp32 and, but for images, the golden
// tokenizer.
void WriteModel(const std::filesystem::path& folder,
                const nlohmann::json& config);

// A decoder's folder whose bf16 weights are a hole in the file: any size costs
// nothing as long as nobody reads it.
void WriteHollowDecoder(const std::filesystem::path& folder,
                        const nlohmann::json& config);

}  // namespace mpsd::ops

#endif  // MPSD_TESTS_OPS_MODELS_H_
