// SPDX-License-Identifier: Apache-2.0
#include "core/model/wide_linear.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "core/base/check.h"
#include "core/device/traits.h"

namespace mpsd::products {
namespace {

// The number of outputs per piece; absent: all outputs at a time.
std::optional<int64_t> PieceOf(const at::Tensor& x, const at::Tensor& weight) {
  const std::optional<int64_t> most = device::TraitsOf(x.device()).max_sum;
  return most && weight.size(0) > *most ? most : std::nullopt;
}

}  // namespace

at::Tensor LinearInPieces(const at::Tensor& x, const at::Tensor& weight,
                          const at::Tensor& bias, int64_t outputs) {
  std::vector<at::Tensor> pieces;
  for (int64_t at = 0; at < weight.size(0); at += outputs) {
    const int64_t size = std::min(outputs, weight.size(0) - at);
    const at::Tensor w = weight.narrow(0, at, size);
    pieces.push_back(bias.defined() ? at::linear(x, w, bias.narrow(0, at, size))
                                    : at::linear(x, w));
  }
  return at::cat(pieces, -1);
}

at::Tensor WideLinear(const at::Tensor& x, const at::Tensor& weight,
                      const at::Tensor& bias) {
  if (const auto piece = PieceOf(x, weight)) {
    return LinearInPieces(x, weight, bias, *piece);
  }
  return bias.defined() ? at::linear(x, weight, bias) : at::linear(x, weight);
}

at::Tensor TimesInPieces(const at::Tensor& d, const at::Tensor& weight,
                         int64_t inner) {
  base::CheckLess(0, inner, "numbers of a piece");
  base::CheckEqual(d.size(1), weight.size(0), "columns and the weight's rows");
  // The pieces are added in fp32, so that only their own products are rounded.
  at::Tensor sum =
      at::zeros({d.size(0), weight.size(1)}, d.options().dtype(at::kFloat));
  for (int64_t at = 0; at < weight.size(0); at += inner) {
    const int64_t size = std::min(inner, weight.size(0) - at);
    sum.add_(at::matmul(d.narrow(1, at, size).contiguous(),
                        weight.narrow(0, at, size))
                 .to(at::kFloat));
  }
  return sum.to(d.scalar_type());
}

at::Tensor TimesWide(const at::Tensor& d, const at::Tensor& weight) {
  const auto piece = PieceOf(d, weight);
  return piece ? TimesInPieces(d, weight, *piece) : at::matmul(d, weight);
}

}  // namespace mpsd::products
