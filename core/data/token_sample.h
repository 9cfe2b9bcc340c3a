// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_TOKEN_SAMPLE_H_
#define MPSD_CORE_DATA_TOKEN_SAMPLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mpsd::data {

// One row of a data set as tokens.
struct TokenSample {
  std::vector<int32_t> input_ids;
  // As long as input_ids; 1 if the token is a label. A 1 at the first token is
  // ignored: no token predicts the first.
  std::vector<uint8_t> in_loss;

  // The number of tokens that are labels and have a token before them.
  int64_t label_tokens() const {
    int64_t count = 0;
    for (size_t i = 1; i < in_loss.size(); ++i) count += in_loss[i];
    return count;
  }
  bool operator==(const TokenSample&) const = default;
};

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_TOKEN_SAMPLE_H_
