// SPDX-License-Identifier: Apache-2.0
#include "core/worker/cpu_rates.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"

namespace mpsd::worker {
namespace {

// The shortest of several runs: other programs can only lengthen one. The first
// run warms up caches and threads.
double BestSeconds(const std::function<void()>& run) {
  constexpr int kRuns = 6;
  double best = 0;
  for (int i = 0; i <= kRuns; ++i) {
    const absl::Duration start = base::Clock::Real().Monotonic();
    run();
    const double seconds =
        absl::ToDoubleSeconds(base::Clock::Real().Monotonic() - start);
    if (i == 1 || (i > 1 && seconds < best)) best = seconds;
  }
  return std::max(best, 1e-9);
}

// A product of the shape of a small model's layers.
double ProductRate(at::ScalarType dtype) {
  constexpr int64_t kTokens = 512, kIn = 768, kOut = 1536;
  const at::Tensor x = at::ones({kTokens, kIn}, dtype);
  const at::Tensor w = at::ones({kOut, kIn}, dtype);
  const double seconds = BestSeconds([&] { at::mm(x, w.t()); });
  return 2.0 * kTokens * kIn * kOut / seconds;
}

double MemoryRate() {
  constexpr int64_t kNumbers = int64_t{16} << 20;  // 64 MiB, beyond caches
  const at::Tensor x = at::ones({kNumbers});
  at::Tensor y = at::empty({kNumbers});
  const double seconds = BestSeconds([&] { at::mul_out(y, x, x); });
  constexpr double kPasses = 2;  // one read, one written
  return kPasses * static_cast<double>(kNumbers) * sizeof(float) / seconds;
}

}  // namespace

plan::Rates MeasureCpu() {
  // An operator call on the host, with its bookkeeping.
  constexpr double kCallSeconds = 5e-6;
  return {.fp32_operations = ProductRate(at::kFloat),
          .half_operations = ProductRate(at::kBFloat16),
          .bytes = MemoryRate(),
          .call_seconds = kCallSeconds,
          .source = absl::StrCat("this CPU, measured with ",
                                 at::get_num_threads(), " threads")};
}

}  // namespace mpsd::worker
