// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_QUERY_BLOCKS_H_
#define MPSD_CORE_SPEC_QUERY_BLOCKS_H_

#include <cstdint>

namespace mpsd::spec {

// For attention by blocks of queries (core/explicit_step): how many queries of
// every row and head have their scores computed at a time. Small blocks skip
// more of the scores that causality masks, but each block costs a dozen calls.
// With `cached` (backend::Traits::cached_pieces) a block's scores fit into a
// cache, else they number at most 2^27.
int64_t QueriesPerBlock(int64_t rows, int64_t heads, int64_t length,
                        bool cached);

// The most mask numbers kept for all blocks together: masks of packed rows'
// segments, and masks added by products (backend::Traits::masks_for_products).
inline constexpr int64_t kMostKeptMasks = int64_t{1} << 23;

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_QUERY_BLOCKS_H_
