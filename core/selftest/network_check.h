// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SELFTEST_NETWORK_CHECK_H_
#define MPSD_CORE_SELFTEST_NETWORK_CHECK_H_

#include <functional>
#include <string>
#include <vector>

#include "core/selftest/checks.h"
#include "core/selftest/compare.h"
#include "core/selftest/networks.h"

namespace mpsd::selftest {

// The tolerated error of the gradients and losses of two layers, relative to
// the largest number of each tensor. In bf16 all activations and all weight
// gradients are rounded.
inline constexpr double kNetworkFloatTolerance = 2e-4;
inline constexpr double kNetworkBfloat16Tolerance = 0.25;
// The bf16 tolerance is multiplied by this for gradients that are sums over all
// tokens (of biases and norms): devices may add them up in bf16.
inline constexpr double kSumsInBfloat16 = 2;
// A gradient below this share of the largest gradient of its rank is zero up to
// rounding, as that of a key's bias is: its error is relative to the largest.
inline constexpr double kNothing = 1e-3;

// A network and a single training step of it.
struct NetworkTrial {
  std::string kernel, shape;
  // Trains; returns losses and gradients on the CPU. `reference`: by autograd,
  // as exactly as possible.
  std::function<Tensors(const Place&, bool reference)> train;
  // Number of attempts, each with other random numbers; the best counts.
  int attempts = 1;
  // False for a network whose gradients jump, as a relu's do if rounding flips
  // a sign: a comparison in bf16 would be meaningless.
  bool in_bf16 = true;
};

// Adds the trial in fp32 and in bf16, compared with the reference on the CPU in
// fp32, which both share.
void AddNetwork(const NetworkTrial& trial, std::vector<Check>& checks);

// A network whose weights are trained in fp32 takes sixteen bytes per weight,
// on the device and again on the CPU. Models above this width are represented
// by the default sizes.
inline constexpr int64_t kMaxFullWidth = 1024;
Sizes WithinWidth(const Sizes& sizes, int64_t width);

}  // namespace mpsd::selftest

#endif  // MPSD_CORE_SELFTEST_NETWORK_CHECK_H_
