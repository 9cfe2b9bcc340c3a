// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_QUERY_BLOCKS_H_
#define MPSD_CORE_SPEC_QUERY_BLOCKS_H_

#include <cstdint>

namespace mpsd::spec {

// For attention by blocks of queries (core/explicit_step): how many queries of
// every row and head have their scores computed at a time. Small blocks skip
// more of the scores that causality masks; but each block costs a dozen calls.
// `cached` is backend::Traits::cached_pieces: a block's scores then fit into a
// cache, else they number 2^27 at most.
int64_t QueriesPerBlock(int64_t rows, int64_t heads, int64_t length,
                        bool cached);

// The most mask numbers that are kept for all blocks together: masks of packed
// rows' segments, and masks that products add
// (backend::Traits::masks_for_products).
inline constexpr int64_t kMostKeptMasks = int64_t{1} << 23;

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_QUERY_BLOCKS_H_
