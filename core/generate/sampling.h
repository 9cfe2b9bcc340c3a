// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "core/spec/generation.h"

namespace mpsd::generate {

// A token that may come next.
struct Candidate {
  int32_t id = 0;
  double probability = 0;
};

// The tokens that may come after `ids`, the prompt and what was generated, by
// the model's `logits`: those that Transformers' processors leave (5.24,
// generation/logits_process.py), with their probabilities, which sum to 1.
// Without do_sample: the likeliest. Empty if the logits are not finite.
std::vector<Candidate> NextTokens(const spec::GenerationSettings& settings,
                                  std::span<const float> logits,
                                  std::span<const int32_t> ids);

// Draws the tokens of one row. The same seed and row draw the same on every
// machine, in any batch.
class Sampler {
 public:
  Sampler(int64_t seed, int64_t row);
  // One of `candidates`, which must not be empty.
  int32_t Draw(const std::vector<Candidate>& candidates);

 private:
  std::mt19937_64 generator_;
};

}  // namespace mpsd::generate
