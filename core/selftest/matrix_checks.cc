// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "core/selftest/checks.h"
#include "core/selftest/numeric_check.h"

namespace mpsd::selftest {
namespace {

// x Wᵀ and the gradients by x and W: three GEMMs.
Numeric Linear(int64_t tokens, int64_t in, int64_t out, bool bias) {
  Numeric n;
  n.kernel = "linear, gradients";
  n.shape = absl::StrCat(tokens, " × ", in, " → ", out, bias ? ", bias" : "");
  n.inputs = [=]() -> Tensors {
    Tensors inputs = {Normal({tokens, in}, 1), Normal({out, in}, 2)};
    if (bias) inputs.push_back(Normal({out}, 3));
    return inputs;
  };
  n.function = WithGradients([](const Tensors& t) -> Tensors {
    return {t.size() > 2 ? at::linear(t[0], t[1], t[2])
                         : at::linear(t[0], t[1])};
  });
  return n;
}

// In bf16 the bias is omitted: its gradient is a sum over all tokens, and
// backends may add that up in bf16.
void AddWithBias(int64_t tokens, int64_t in, int64_t out,
                 std::vector<Check>& checks) {
  checks.push_back(MakeCheck(Linear(tokens, in, out, true), at::kFloat));
  checks.push_back(MakeCheck(Linear(tokens, in, out, false), at::kBFloat16));
}

// The gradient by W of y = x Wᵀ as the explicit step computes it, with a
// contiguous left operand.
Numeric WeightGradient(int64_t tokens, int64_t in, int64_t out) {
  Numeric n;
  n.kernel = "matmul, left side transposed and copied";
  n.shape = absl::StrCat(out, " × ", tokens, " · ", tokens, " × ", in);
  n.inputs = [=]() -> Tensors {
    return {Normal({tokens, out}, 4), Normal({tokens, in}, 5)};
  };
  n.function = [](const Tensors& t) -> Tensors {
    return {at::matmul(t[0].t().contiguous(), t[1])};
  };
  n.reference = [](const Tensors& t) -> Tensors {
    return {at::matmul(t[0].t(), t[1])};
  };
  return n;
}

// The longest sum that training needs, at sizes where MPS used to read beyond
// the matrices (pytorch#177116, #195163).
Numeric LongSum(int64_t batch) {
  constexpr int64_t kInner = 32'766;
  Numeric n;
  n.kernel = batch == 0 ? "matmul, longest sum" : "bmm, longest sum";
  n.shape = absl::StrCat("17 × ", kInner, " · ", kInner, " × 16");
  n.inputs = [=]() -> Tensors {
    if (batch == 0) return {Normal({17, kInner}, 6), Normal({kInner, 16}, 7)};
    return {Normal({batch, 17, kInner}, 6), Normal({batch, kInner, 16}, 7)};
  };
  n.function = [](const Tensors& t) -> Tensors {
    return {at::matmul(t[0], t[1])};
  };
  return n;
}

Numeric Batched(int64_t batch, int64_t m, int64_t k, int64_t n_) {
  Numeric n;
  n.kernel = "bmm, right side transposed";
  n.shape = absl::StrCat(batch, " × (", m, " × ", k, " · ", k, " × ", n_, ")");
  n.inputs = [=]() -> Tensors {
    return {Normal({batch, m, k}, 8), Normal({batch, n_, k}, 9)};
  };
  n.function = [](const Tensors& t) -> Tensors {
    const at::Tensor scores = at::bmm(t[0], t[1].transpose(1, 2));
    return {scores, at::bmm(scores, t[1]),
            at::bmm(scores.transpose(1, 2).contiguous(), t[0])};
  };
  return n;
}

}  // namespace

std::vector<Check> MatrixChecks(const Sizes& s) {
  std::vector<Check> checks;
  AddBoth(Linear(s.tokens(), s.width, s.inner, false), checks);
  AddWithBias(s.tokens(), s.inner, s.width, checks);
  // The two products of an adapter, through its rank.
  AddBoth(Linear(s.tokens(), s.width, 16, false), checks);
  AddBoth(Linear(s.tokens(), 16, s.width, false), checks);
  // Sizes that are not a multiple of a tile.
  AddWithBias(61, 127, 33, checks);
  AddBoth(WeightGradient(s.tokens(), s.width, s.inner), checks);
  AddBoth(WeightGradient(37, 65, 17), checks);
  AddBoth(LongSum(0), checks);
  checks.push_back(MakeCheck(LongSum(2), at::kFloat));
  const int64_t tile = std::min<int64_t>(256, s.length);
  checks.push_back(
      MakeCheck(Batched(s.rows * s.kv_heads, s.heads / s.kv_heads * tile,
                        s.head_dim, tile),
                at::kFloat));
  return checks;
}

}  // namespace mpsd::selftest
