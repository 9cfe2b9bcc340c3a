// SPDX-License-Identifier: Apache-2.0
#include "core/spec/query_blocks.h"

#include <algorithm>

namespace mpsd::spec {
namespace {

// Bounds on the scores of one block over all rows and heads: few enough that a
// bf16 block takes at most 256 MiB, and enough to be worth a block's calls.
constexpr int64_t kMaxScores = int64_t{1} << 27;
constexpr int64_t kMinScores = int64_t{1} << 24;
constexpr int64_t kMinQueries = 256;
constexpr int64_t kMinQueriesCached = 64, kMaxQueriesCached = 128;

}  // namespace

int64_t QueriesPerBlock(int64_t rows, int64_t heads, int64_t length,
                        bool cached) {
  int64_t count = length;
  if (cached) {
    count = std::clamp(count / 8, kMinQueriesCached, kMaxQueriesCached);
  }
  const int64_t by_query = rows * heads * length;
  while (count > kMinQueries && count / 2 * by_query >= kMinScores) {
    count = (count + 1) / 2;
  }
  while (count > 32 && count * by_query > kMaxScores) count = (count + 1) / 2;
  return std::min(length, (count + 31) / 32 * 32);
}

}  // namespace mpsd::spec
