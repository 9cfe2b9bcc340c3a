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

// Of the gradients and losses of two layers, relative to the largest number of
// each tensor: bf16 rounds every activation and every weight's gradient on the
// way to them.
inline constexpr double kNetworkFloatTolerance = 2e-4;
inline constexpr double kNetworkBfloat16Tolerance = 0.25;
// Gradients that are sums over all tokens (of biases and norms) may be added up
// in bf16: they may be so much further away there.
inline constexpr double kSumsInBfloat16 = 2;
// A gradient so much smaller than the largest of its rank is zero but for
// rounding, as that of a key's bias is: its error counts relative to that one.
inline constexpr double kNothing = 1e-3;

// A network that is trained for a moment.
struct NetworkTrial {
  std::string kernel, shape;
  // Losses and gradients, on the CPU; `reference`: as exact as can be, by
  // autograd.
  std::function<Tensors(const Place&, bool reference)> train;
  // The best of so many counts, each with other random numbers.
  int attempts = 1;
  // Of a network whose gradients jump, as a relu's do where rounding turns a
  // sign, there is nothing to compare in bf16.
  bool in_bf16 = true;
};

// Adds the trial in fp32 and in bf16, compared with the reference on the CPU in
// fp32, which both share.
void AddNetwork(const NetworkTrial& trial, std::vector<Check>& checks);

// Networks whose weights are trained in fp32 take sixteen bytes a weight twice,
// here and on the CPU: above this width the default sizes stand for them.
inline constexpr int64_t kMaxFullWidth = 1024;
Sizes WithinWidth(const Sizes& sizes, int64_t width);

}  // namespace mpsd::selftest

#endif  // MPSD_CORE_SELFTEST_NETWORK_CHECK_H_
