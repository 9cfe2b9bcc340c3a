// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SELFTEST_CHECKS_H_
#define MPSD_CORE_SELFTEST_CHECKS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/device/device.h"

namespace mpsd::selftest {

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

}  // namespace mpsd::selftest

#endif  // MPSD_CORE_SELFTEST_CHECKS_H_
