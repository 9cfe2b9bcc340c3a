// SPDX-License-Identifier: Apache-2.0
#include "core/selftest/network_check.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"

namespace mpsd::selftest {
namespace {

double Largest(const at::Tensor& t) {
  return t.numel() == 0 ? 0 : t.abs().max().item<double>();
}

// The largest magnitude of the gradients of each rank.
std::map<int64_t, double> LargestOf(const Tensors& tensors) {
  std::map<int64_t, double> largest;
  for (const at::Tensor& t : tensors) {
    largest[t.dim()] = std::max(largest[t.dim()], Largest(t));
  }
  return largest;
}

double WorstError(const Tensors& actual, const Tensors& expected,
                  at::ScalarType dtype) {
  if (actual.size() != expected.size()) {
    return std::numeric_limits<double>::infinity();
  }
  const std::map<int64_t, double> largest = LargestOf(expected);
  double worst = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    // A gradient that is negligible among others of its rank consists of
    // rounding: its error is relative to their magnitude.
    double error = RelativeError(actual[i], expected[i]);
    const double most = largest.at(expected[i].dim());
    const double own = std::max(Largest(expected[i]), 1e-30);
    if (own < kNothing * most) error *= own / most;
    if (dtype == at::kBFloat16 && expected[i].dim() == 1) {
      error /= kSumsInBfloat16;
    }
    worst = std::max(worst, error);
  }
  return worst;
}

}  // namespace

void AddNetwork(const NetworkTrial& trial, std::vector<Check>& checks) {
  const auto expected = std::make_shared<Tensors>();
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const bool narrow = dtype == at::kBFloat16;
    if (narrow && !trial.in_bf16) continue;
    Check check;
    check.kernel = trial.kernel;
    check.shape =
        absl::StrCat(trial.shape, narrow ? ", bfloat16" : ", float32");
    check.tolerance =
        narrow ? kNetworkBfloat16Tolerance : kNetworkFloatTolerance;
    check.error = [=, tolerance = check.tolerance](device::Device& device) {
      // The reference is the CPU's in fp32 for both dtypes, computed when the
      // first of the two checks runs.
      if (expected->empty()) *expected = trial.train(Place{}, true);
      const Place place = Place::On(device, dtype);
      double best = std::numeric_limits<double>::infinity();
      for (int i = 0; i < trial.attempts && best > tolerance; ++i) {
        device.Seed(static_cast<uint64_t>(i + 1));
        best = std::min(
            best, WorstError(trial.train(place, false), *expected, dtype));
      }
      return best;
    };
    checks.push_back(std::move(check));
  }
}

Sizes WithinWidth(const Sizes& sizes, int64_t width) {
  return sizes.width <= width ? sizes : Sizes{};
}

}  // namespace mpsd::selftest
