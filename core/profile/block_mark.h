// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_PROFILE_BLOCK_MARK_H_
#define MPSD_CORE_PROFILE_BLOCK_MARK_H_

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace mpsd::profile {

// Names the work of the calling thread, from its construction to its end, for
// the profiler: a block of the step, which blocks within it interrupt. A mark
// is no operator: who counts ATen calls does not see it. Where nobody listens
// it costs a look at a thread-local, some nanoseconds.
//
// Names start with "mpsd::". They end with " backward" or " again" (recomputed)
// where the work is not the forward's, or the whole step's (capture.h).
class BlockMark {
 public:
  // `name` is a literal that starts with "mpsd::".
  explicit BlockMark(const char* name)
      : function_(at::RecordScope::USER_SCOPE) {
    if (!function_.isActive()) return;
    function_.before(std::string_view(name), Sequence());
  }
  // As above, of "mpsd::layer <index>" and then `suffix`.
  BlockMark(int64_t layer, const char* suffix)
      : function_(at::RecordScope::USER_SCOPE) {
    if (!function_.isActive()) return;
    text_ = "mpsd::layer " + std::to_string(layer) + suffix;
    function_.before(std::string_view(text_), Sequence());
  }
  BlockMark(const BlockMark&) = delete;
  BlockMark& operator=(const BlockMark&) = delete;

 private:
  // The number of the next node of autograd: it ties a node to the block that
  // the node was made in.
  static int64_t Sequence() {
    return static_cast<int64_t>(at::sequence_number::peek());
  }

  std::string text_;
  at::RecordFunction function_;
};

}  // namespace mpsd::profile

#endif  // MPSD_CORE_PROFILE_BLOCK_MARK_H_
