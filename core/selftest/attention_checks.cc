// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "core/model/attention.h"
#include "core/selftest/checks.h"
#include "core/selftest/compare.h"
#include "core/selftest/numeric_check.h"

namespace mpsd::selftest {
namespace {

using attention::AttentionKernel;
using attention::AttentionMask;

enum class Kind { kCausal, kSegments, kWindow, kPadding };

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kCausal:
      return "causal";
    case Kind::kSegments:
      return "packed";
    case Kind::kWindow:
      return "windowed";
    case Kind::kPadding:
      return "padded";
  }
  return "";
}

Tensors Inputs(const Sizes& s, Kind kind) {
  const int64_t kv = kind == Kind::kPadding ? s.heads : s.kv_heads;
  Tensors inputs = {Normal({s.rows, s.heads, s.length, s.head_dim}, 21),
                    Normal({s.rows, kv, s.length, s.head_dim}, 22),
                    Normal({s.rows, kv, s.length, s.head_dim}, 23)};
  if (kind == Kind::kSegments) {
    inputs.push_back(
        (at::arange(s.length) / 100).to(at::kLong).expand({s.rows, s.length}));
  }
  if (kind == Kind::kPadding) {
    inputs.push_back(s.length - at::arange(s.rows) * (s.length / 3));
  }
  return inputs;
}

Tensors Attend(const Tensors& t, Kind kind, AttentionKernel kernel) {
  if (kind == Kind::kPadding) {
    const at::Tensor keys =
        attention::PaddingMask(t[3], t[0].size(2), t[0].scalar_type());
    return {
        attention::BidirectionalAttention(t[0], t[1], t[2], keys, 0, kernel)};
  }
  AttentionMask mask;
  if (kind == Kind::kSegments) mask.segments = t[3];
  if (kind == Kind::kWindow) mask.window = 33;
  return {attention::CausalAttention(t[0], t[1], t[2], mask, kernel)};
}

Numeric Attention(const Sizes& s, Kind kind, AttentionKernel kernel) {
  Numeric n;
  n.kernel = absl::StrCat(
      kernel == AttentionKernel::kTiled ? "tiled" : "the device's own",
      " attention, ", NameOf(kind), ", gradients");
  n.shape =
      absl::StrCat(s.rows, " × ", s.heads, " × ", s.length, " × ", s.head_dim);
  n.inputs = [=] { return Inputs(s, kind); };
  const auto with = [=](AttentionKernel k) -> Function {
    return WithGradients([=](const Tensors& t) { return Attend(t, kind, k); });
  };
  n.function = with(kernel);
  n.reference = with(AttentionKernel::kFused);
  return n;
}

}  // namespace

std::vector<Check> AttentionChecks(const Sizes& sizes, bool own) {
  // The CPU would take minutes for a whole micro-batch of a large model.
  Sizes s = sizes;
  s.length = std::min<int64_t>(s.length, 1024);
  std::vector<Check> checks;
  for (const Kind kind :
       {Kind::kCausal, Kind::kSegments, Kind::kWindow, Kind::kPadding}) {
    AddBoth(Attention(s, kind, AttentionKernel::kTiled), checks);
    if (own) AddBoth(Attention(s, kind, AttentionKernel::kFused), checks);
  }
  return checks;
}

}  // namespace mpsd::selftest
