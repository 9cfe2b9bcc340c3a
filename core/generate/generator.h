// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/model/decoder.h"
#include "core/spec/generation.h"

namespace mpsd::generate {

enum class Finish { kEos, kStopString, kLength };

struct Answer {
  std::vector<int32_t> ids;  // with the token that ended it
  Finish finish = Finish::kLength;
};

// What does not depend on the prompts.
struct Generation {
  spec::GenerationSettings settings;
  // Whether the ids of a prompt and its answer end with a stop string; null:
  // there is none.
  std::function<bool(std::span<const int32_t>)> ends_with_stop = {};
  // Called before each token with the number of tokens that each answer of the
  // batch has; false ends the generation. Null: none.
  std::function<bool(int64_t)> go_on = {};
};

// Answers the prompts in one batch, each with up to max_new_tokens tokens, on
// the calling thread: left-padded, the prompts in one forward, then a token per
// row at a time from a cache. What a prompt is answered does not depend on the
// others, but for rounding. `rows` are the prompts' numbers, by which samples
// are drawn. Prompts must not be empty.
//
// Cancelled if go_on asks for it. DataLoss for logits that are not finite, as
// far as the host sees them.
absl::StatusOr<std::vector<Answer>> Answers(
    const model::Decoder& decoder, device::Device& device,
    const Generation& generation,
    const std::vector<std::vector<int32_t>>& prompts,
    const std::vector<int64_t>& rows);

// Answers any number of prompts, those of about one length in a batch; samples
// are drawn by their numbers. Asks `go_on` before each token, with the share
// done, instead of generation.go_on. Errors as Answers.
absl::StatusOr<std::vector<Answer>> AllAnswers(
    const model::Decoder& decoder, device::Device& device,
    Generation generation, const std::vector<std::vector<int32_t>>& prompts,
    const std::function<bool(double)>& go_on);

// The largest batch of prompts of up to `tokens` tokens for Answers: bounds the
// memory of caches and of the first forward's masks.
int64_t MostRows(const spec::ModelConfig& config, int64_t tokens,
                 int64_t max_new_tokens, at::ScalarType dtype);

}  // namespace mpsd::generate
