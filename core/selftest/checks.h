// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/device/device.h"

// Compares computations on a device with the same on the CPU in fp32.
namespace mpsd::selftest {

using Tensors = std::vector<at::Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

// The greatest difference between two tensors, divided by the greatest
// magnitude in `expected`; infinite if the shapes differ or a number is finite
// on only one side.
double RelativeError(const at::Tensor& actual, const at::Tensor& expected);

// The worst RelativeError of the results of `function` on `device`, with its
// floating inputs in `dtype`, against `reference` on the CPU in fp32. Both get
// the same numbers: `inputs` (on the CPU) are rounded to `dtype` first.
double ErrorOf(const Function& function, const Function& reference,
               const Tensors& inputs, at::Device device, at::ScalarType dtype);

// The results of `function`, followed by the gradients of Σ cos(i) ·
// results[0][i] over its elements, by every floating input.
Function WithGradients(Function function);

// Normally distributed numbers on the CPU that depend only on `seed`.
at::Tensor Normal(at::IntArrayRef shape, uint64_t seed, double deviation = 1);
// Whole numbers from 0 to limit − 1.
at::Tensor Integers(at::IntArrayRef shape, int64_t limit, uint64_t seed);

// The sizes of a model and of its micro-batches.
struct Sizes {
  int64_t width = 256, inner = 640;
  int64_t heads = 4, kv_heads = 2, head_dim = 64;
  int64_t vocabulary = 2048;
  int64_t rows = 2, length = 288;  // more than one attention tile
  int64_t tokens() const { return rows * length; }
  bool operator==(const Sizes&) const = default;
};

// Compares one computation that training uses with the CPU in fp32.
struct Check {
  std::string kernel;  // "linear, gradients"
  std::string shape;   // "576 × 256 → 640, bfloat16"
  double tolerance = 0;
  // Returns the error as the check defines it; relative if numbers are
  // compared. torch's exceptions pass through.
  std::function<double(device::Device&)> error;
};

// GEMMs, plain and batched, forward and backward, in fp32 and bf16, at `sizes`
// and at the edge cases that MPS computed wrongly.
std::vector<Check> MatrixChecks(const Sizes& sizes);
// Norms, rotary embedding, activations, embeddings, softmax.
std::vector<Check> LayerChecks(const Sizes& sizes);
// Attention: tiled and, if training uses it, the device's own.
std::vector<Check> AttentionChecks(const Sizes& sizes, bool own);
std::vector<Check> LossChecks(const Sizes& sizes);
// The explicit step's attention, norm, rotation and head.
std::vector<Check> ExplicitChecks(const Sizes& sizes,
                                  const device::Traits& traits);
// Copies and casts, random numbers, dropout, AdamW, and the detection of lost
// work.
std::vector<Check> DeviceChecks(const Sizes& sizes);

// Decoders as jobs train them: adapters by the explicit step (plain, packed,
// windowed, quantised …) and by autograd, all weights; the losses of a step and
// of an evaluation, and every gradient.
std::vector<Check> DecoderChecks(const Sizes& sizes);
// Classifiers of texts and of images: the same comparisons.
std::vector<Check> ClassifierChecks(const Sizes& sizes);

// All checks for this device.
std::vector<Check> AllChecks(const Sizes& sizes, const device::Device& device);

// A digest of the checks' names, shapes and tolerances: changes when they do.
std::string Coverage(const std::vector<Check>& checks);

// The tolerated error, relative to the largest number of a result. fp32 allows
// for another order of summation; bf16 for its own rounding (2⁻⁹), which adds
// up in gradients summed in bf16.
inline constexpr double kFloatTolerance = 1e-4;
inline constexpr double kBfloat16Tolerance = 3e-2;

// Compares `function` on the device with `reference` on the CPU; null: with
// `function` itself on the CPU.
struct Numeric {
  std::string kernel, shape;
  std::function<Tensors()> inputs;  // made when the check runs
  Function function;
  Function reference = nullptr;
};

// The check in `dtype`, whose name it adds to the shape.
Check MakeCheck(Numeric numeric, at::ScalarType dtype);

// Adds the check in fp32 and in bf16.
void AddBoth(const Numeric& numeric, std::vector<Check>& checks);

}  // namespace mpsd::selftest
