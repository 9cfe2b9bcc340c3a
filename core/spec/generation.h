// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/spec/train_spec.h"

namespace mpsd::spec {

// Bounds of one job.
inline constexpr size_t kMostPrompts = 1000;
inline constexpr size_t kMostPromptBytes = 4 << 20;    // of the file
inline constexpr int64_t kMostNewTokens = 8192;        // of an answer
inline constexpr int64_t kMostAnswerTokens = 1 << 19;  // of all answers
// Of the keys and values of a batch, unless one row alone needs more.
inline constexpr int64_t kMostCacheBytes = int64_t{1} << 30;

// How text is generated: fields of Transformers' GenerationConfig (5.24), with
// their names and defaults, except that max_new_tokens is not 20 of all tokens.
struct GenerationSettings {
  int64_t max_new_tokens = 256;
  bool do_sample = false;  // false: always the likeliest token
  // Applied to the logits in this order; the last four only with do_sample.
  double repetition_penalty = 1;
  double temperature = 1;
  int64_t top_k = 50;  // 0: off
  double top_p = 1;
  double min_p = 0;
  std::vector<int64_t> eos_token_id;  // each ends an answer
  // A text that ends an answer, and is its end.
  std::vector<std::string> stop_strings;
  int64_t seed = 0;  // of the samples
};

// Sets the fields that `json`, an object, has; null is as good as absent, other
// members are ignored. InvalidArgument: "<field>: must be …, is …".
absl::Status TakeGenerationSettings(const nlohmann::json& json,
                                    GenerationSettings& settings);

// The settings of a model's folder: those of generation_config.json; without
// that file, eos_token_id of config.json. `ignored` gets the members of the
// file that would change what Transformers generates and that mpsd does not
// have ("num_beams"). InvalidArgument names the file.
absl::StatusOr<GenerationSettings> ReadGenerationSettings(
    const std::string& model_folder, std::vector<std::string>& ignored);

// The prompt {"prompt": TEXT} or {"messages": [{"role": …, "content": …} …]};
// nullopt if `json` is neither of the two.
std::optional<Prompt> PromptOf(const nlohmann::ordered_json& json);

// The prompt's text; of a chat what its last message says.
std::string ShownText(const Prompt& prompt);

// The prompts of a JSON Lines file, one in each line; blank lines are skipped.
// InvalidArgument says what is wrong and names the line, "<origin>:<line>: …".
absl::StatusOr<std::vector<Prompt>> ParsePrompts(std::string_view jsonl,
                                                 const std::string& origin);

}  // namespace mpsd::spec
