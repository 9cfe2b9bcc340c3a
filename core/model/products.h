// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "core/device/device.h"

// Products with their own backward, since autograd's is wrong on MPS: its fp32
// GEMMs with transposed views on the left are wrong (pytorch#193487), and its
// kernels have left non-contiguous targets unwritten.
namespace mpsd::products {

// a b and a bᵀ; a [.., m, k], with the same leading sizes in both operands. The
// backward makes its left operands and the gradients by b contiguous.
at::Tensor Product(const at::Tensor& a, const at::Tensor& b);
at::Tensor ProductOfTransposed(const at::Tensor& a, const at::Tensor& b);

// Returns x; the backward makes the gradient contiguous.
at::Tensor WithContiguousGradient(const at::Tensor& x);

// at::linear that is also right for vocabularies: its gradient by x sums over
// the outputs, so a layer with more outputs than the device can sum
// (device::Traits::max_sum) is computed in pieces. `bias` may be undefined.
at::Tensor WideLinear(const at::Tensor& x, const at::Tensor& weight,
                      const at::Tensor& bias = {});

// d W in d's dtype; d [n, outputs], W [outputs, width]. Split into sums of as
// many products as the device can sum, which are added in fp32.
at::Tensor TimesWide(const at::Tensor& d, const at::Tensor& weight);

// TimesWide in sums of `inner` products, on any device.
at::Tensor TimesInPieces(const at::Tensor& d, const at::Tensor& weight,
                         int64_t inner);
// WideLinear in pieces of `outputs`, on any device.
at::Tensor LinearInPieces(const at::Tensor& x, const at::Tensor& weight,
                          const at::Tensor& bias, int64_t outputs);

// gradient += scale · leftᵀ right, summed in fp32, by calls that are correct
// with `traits`; gradient fp32 [m, n], left [tokens, m], right [tokens, n].
void AddProduct(at::Tensor gradient, const at::Tensor& left,
                const at::Tensor& right, const device::Traits& traits,
                double scale = 1);
// gradient = leftᵀ right, likewise: saves a pass of zeros, and one that reads
// them.
void SetProduct(at::Tensor gradient, const at::Tensor& left,
                const at::Tensor& right, const device::Traits& traits);

// The rows of `parts` as one tensor if they are adjacent in memory in this
// order, as optim::ParameterSet lays out the weights of q, k and v; else
// undefined.
at::Tensor AdjacentRows(const std::vector<at::Tensor>& parts);

// x wᵀ + bias in fp32 on the CPU; x [m, k], w [n, k], bias [n], any strides.
// Uses oneDNN's inner product if torch was built with oneDNN and m is not
// small: it is 5 to 15 % faster than oneDNN's GEMM and the GEMM behind at::mm
// (torch 2.15, x86-64). Its sums are less exact: an error of 4e-7 of the result
// at k = 576 against 2.5e-7 for at::mm, and 5e-7 at k = 1,536. In the forward
// this becomes 4e-5 of the gradients over thirty layers of a real model. In the
// backward it is visible only for a head, whose sums are as long as the
// vocabulary.
at::Tensor InnerProduct(const at::Tensor& x, const at::Tensor& w,
                        const std::optional<at::Tensor>& bias = std::nullopt);

}  // namespace mpsd::products
