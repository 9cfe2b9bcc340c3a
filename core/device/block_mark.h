// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace mpsd::profile {

// Names the work of the calling thread, while it exists, for the profiler: a
// block of the step, which nested blocks interrupt. A mark is not an operator:
// counters of ATen calls do not see it. Without a profiler it costs a
// thread-local read, some nanoseconds.
//
// Names start with "mpsd::". They end with " backward" or " again" (recomputed)
// unless the work belongs to the forward or the whole step (profile.h).
class BlockMark {
 public:
  // `name` is a literal that starts with "mpsd::".
  explicit BlockMark(const char* name)
      : function_(at::RecordScope::USER_SCOPE) {
    if (!function_.isActive()) return;
    function_.before(std::string_view(name), Sequence());
  }
  // Likewise for "mpsd::layer <index>" followed by `suffix`.
  BlockMark(int64_t layer, const char* suffix)
      : function_(at::RecordScope::USER_SCOPE) {
    if (!function_.isActive()) return;
    text_ = "mpsd::layer " + std::to_string(layer) + suffix;
    function_.before(std::string_view(text_), Sequence());
  }
  BlockMark(const BlockMark&) = delete;
  BlockMark& operator=(const BlockMark&) = delete;

 private:
  // The number of autograd's next node: it links a node to the block in which
  // the node was made.
  static int64_t Sequence() {
    return static_cast<int64_t>(at::sequence_number::peek());
  }

  std::string text_;
  at::RecordFunction function_;
};

}  // namespace mpsd::profile
