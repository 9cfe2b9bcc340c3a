// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_QUERY_BLOCKS_H_
#define MPSD_CORE_SPEC_QUERY_BLOCKS_H_

#include <cstdint>

namespace mpsd::spec {

// Where attention goes by blocks of queries (core/fast): how many of them, of
// all rows and heads, have their scores computed at a time. Small blocks leave
// out more of what causality hides; each costs a dozen calls. `cached` is
// backend::Traits::cached_pieces: a block's scores stay in a cache, else they
// are 2^27 at most.
int64_t QueriesPerBlock(int64_t rows, int64_t heads, int64_t length,
                        bool cached);

// Numbers of the blocks' own masks, of all blocks together, that are kept:
// those that the segments of packed rows make, and those made for products to
// add (backend::Traits::masks_for_products).
inline constexpr int64_t kMostKeptMasks = int64_t{1} << 23;

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_QUERY_BLOCKS_H_
