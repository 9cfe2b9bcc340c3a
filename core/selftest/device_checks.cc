// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/optim/adamw.h"
#include "core/optim/parameters.h"
#include "core/selftest/checks.h"

namespace mpsd::selftest {
namespace {

using device::Device;

double Exact(const at::Tensor& actual, const at::Tensor& expected) {
  return at::equal(actual.cpu(), expected) ? 0 : 1;
}

double CountWrong(const Tensors& actual, const Tensors& expected) {
  double wrong = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    wrong += Exact(actual[i], expected[i]);
  }
  return wrong;
}

// Copies to the device and back, in every dtype that training copies.
double RoundTrips(Device& device) {
  double wrong = 0;
  const at::Tensor numbers = Normal({1001}, 41, 100);
  for (const at::ScalarType dtype :
       {at::kFloat, at::kBFloat16, at::kHalf, at::kLong, at::kInt, at::kByte,
        at::kBool}) {
    const at::Tensor host = numbers.abs().to(dtype);
    wrong += Exact(host.to(device.torch_device()), host);
  }
  return wrong;
}

// Casts on the device round as the CPU does.
double Casts(Device& device) {
  const at::Tensor host = Normal({4096}, 42, 10);
  const at::Tensor there = host.to(device.torch_device());
  const at::Tensor narrow = host.to(at::kBFloat16);
  double wrong = Exact(there.to(at::kBFloat16), narrow);
  wrong += Exact(there.to(at::kBFloat16).to(at::kFloat), narrow.to(at::kFloat));
  const at::Tensor ids = Integers({4096}, 1 << 20, 43);
  return wrong + Exact(ids.to(device.torch_device()).to(at::kFloat),
                       ids.to(at::kFloat));
}

// Copies between strided tensors, as heads and tiles are.
double Views(Device& device) {
  const at::Tensor host = Normal({6, 10, 8}, 44);
  const at::Tensor there = host.to(device.torch_device());
  double wrong = Exact(there.transpose(0, 1).contiguous(),
                       host.transpose(0, 1).contiguous());
  wrong += Exact(there.permute({2, 0, 1}).narrow(2, 3, 5).reshape({8, -1}),
                 host.permute({2, 0, 1}).narrow(2, 3, 5).reshape({8, -1}));
  const auto write = [](at::Tensor t) {
    t.narrow(1, 2, 3).copy_(t.narrow(1, 6, 3) * 2);
    t.select(2, 1).copy_(t.select(2, 5));
    return t;
  };
  wrong += Exact(write(there.clone()), write(host.clone()));
  wrong += Exact(at::cat({there.narrow(2, 4, 4), there.narrow(2, 0, 4)}, -1),
                 at::cat({host.narrow(2, 4, 4), host.narrow(2, 0, 4)}, -1));
  return wrong;
}

double Indexing(Device& device) {
  const at::Tensor host = Normal({50, 12}, 45);
  const at::Tensor rows = Integers({70}, 50, 46);
  const at::Tensor column = Integers({50, 1}, 12, 47);
  const auto run = [](const at::Tensor& x, const at::Tensor& r,
                      const at::Tensor& c) -> Tensors {
    const at::Tensor added =
        x.scatter_add(1, c, at::full_like(x.narrow(1, 0, 1), -1));
    return {x.index_select(0, r),
            x.gather(1, c),
            added,
            x.masked_fill(x > 0.5, -2),
            at::where(x < 0, x, x.neg()),
            at::maximum(x, x.roll(1, 0))};
  };
  const at::Device there = device.torch_device();
  return CountWrong(run(host.to(there), rows.to(there), column.to(there)),
                    run(host, rows, column));
}

// Integers: masks, positions and codes.
double WholeNumbers(Device& device) {
  const auto run = [](const at::Tensor& a, const at::Tensor& b) -> Tensors {
    const at::Tensor less = a < b;
    return {less,
            less.logical_and(a > 3),
            a * less,
            a - b,
            a.to(at::kInt),
            a.to(at::kInt) - b.to(at::kInt),
            at::constant_pad_nd(a.to(at::kByte), {0, 6}, 1)};
  };
  const at::Tensor a = Integers({40, 12}, 50, 49);
  const at::Tensor b = Integers({40, 12}, 50, 50);
  const at::Device there = device.torch_device();
  return CountWrong(run(a.to(there), b.to(there)), run(a, b));
}

// Training checks whether a result is finite before it writes the result.
double FiniteNumbers(Device& device) {
  const auto finite = [&device](const at::Tensor& host) {
    return at::isfinite(host.to(device.torch_device())).all().item<bool>();
  };
  const at::Tensor host = Normal({1000}, 48);
  double wrong = finite(host) ? 0 : 1;
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity()}) {
    at::Tensor one = host.clone();
    one[500].fill_(bad);
    wrong += finite(one) ? 1 : 0;
  }
  return wrong;
}

// How far the moments of `numbers` are from their expected values, in standard
// deviations of their estimates.
double MomentError(const at::Tensor& numbers, double mean, double variance,
                   double fourth_moment) {
  const at::Tensor x = numbers.cpu().to(at::kDouble).flatten();
  const double n = static_cast<double>(x.numel());
  const double by_mean =
      std::abs(x.mean().item<double>() - mean) / std::sqrt(variance / n);
  const double found = (x - mean).square().mean().item<double>();
  const double by_variance =
      std::abs(found - variance) /
      std::sqrt((fourth_moment - variance * variance) / n);
  const double worst = std::max(by_mean, by_variance);
  return worst == worst ? worst : std::numeric_limits<double>::infinity();
}

double Moments(Device& device) {
  device.Seed(7);
  const auto options =
      at::TensorOptions().device(device.torch_device()).dtype(at::kFloat);
  constexpr int64_t kCount = 1 << 18;
  const at::Tensor normal = at::empty({kCount}, options).normal_();
  const at::Tensor uniform = at::empty({kCount}, options).uniform_();
  return std::max(MomentError(normal, 0, 1, 3),
                  MomentError(uniform, 0.5, 1.0 / 12, 1.0 / 80));
}

// The same seed gives the same numbers, and a state set back repeats them; two
// draws differ.
double Repeats(Device& device) {
  const auto draw = [&device] {
    return at::empty({1000}, at::device(device.torch_device())).normal_().cpu();
  };
  device.Seed(8);
  const at::Tensor first = draw();
  const at::Tensor state = device.RngState();
  const at::Tensor second = draw();
  device.Seed(8);
  double wrong = Exact(draw(), first);
  device.SetRngState(state);
  wrong += Exact(draw(), second);
  return wrong + (at::equal(first, second) ? 1 : 0);
}

// Dropout: kept numbers are scaled, their share is right, and the backward
// drops the same numbers.
double Dropout(Device& device) {
  constexpr double kProbability = 0.1;
  device.Seed(9);
  const at::Tensor x = at::ones({1 << 18}, at::device(device.torch_device()))
                           .requires_grad_(true);
  const at::Tensor y = at::dropout(x, kProbability, /*train=*/true);
  y.sum().backward();
  const at::Tensor kept = y.detach().cpu();
  const at::Tensor expected =
      (kept != 0).to(at::kFloat) * (1 / (1 - kProbability));
  if (!at::allclose(kept, expected, 1e-6)) return 1e3;
  if (!at::allclose(x.grad().cpu(), expected, 1e-6)) return 1e3;
  const at::Tensor ones = (kept != 0).to(at::kFloat);
  const double p = 1 - kProbability, q = kProbability;
  return MomentError(ones, p, p * q, p * q * (p * p * p + q * q * q));
}

// Three steps of AdamW with clipping, in two groups of weight decay.
Tensors AdamWSteps(at::Device device) {
  optim::ParameterSet parameters({{"a.weight", Normal({37, 53}, 51)},
                                  {"a.bias", Normal({53}, 52)},
                                  {"b.weight", Normal({1 << 22}, 53)}},
                                 device);
  spec::TrainingSpec training;
  training.weight_decay = 0.1;
  optim::AdamW optimizer(parameters, training);
  Tensors results;
  at::NoGradGuard no_grad;
  for (uint64_t step = 0; step < 3; ++step) {
    for (const auto& group : parameters.groups()) {
      at::Tensor gradients = group.gradients;
      gradients.copy_(Normal(gradients.sizes(), 60 + step, 0.1));
    }
    results.push_back(optimizer.GradientNorm().clone());
    optimizer.Clip(results.back(), 1.0);
    optimizer.Step(1e-2);
  }
  for (const auto& group : parameters.groups()) results.push_back(group.values);
  for (const auto& state : optimizer.states()) {
    results.push_back(state.first_moment);
    results.push_back(state.second_moment);
  }
  return results;
}

double AdamW(Device& device) {
  const Tensors actual = AdamWSteps(device.torch_device());
  const Tensors expected = AdamWSteps(at::kCPU);
  double error = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    error = std::max(error, RelativeError(actual[i], expected[i]));
  }
  return error;
}

// A GPU that drops work leaves old numbers in memory (pytorch#193571). The
// check queues many large products followed by a mark, and compares the
// products with the expected numbers.
double LostWork(Device& device) {
  constexpr int64_t kSide = 384;
  constexpr int kRounds = 24;
  const auto options =
      at::TensorOptions().device(device.torch_device()).dtype(at::kFloat);
  at::Tensor canary = at::zeros({}, options);
  const at::Tensor identity = at::eye(kSide, options);
  at::Tensor x = at::full({kSide, kSide}, 1.0, options);
  for (int i = 0; i < kRounds; ++i) {
    x = at::matmul(x, identity) + 1;
    canary.fill_(i + 1);
    if (i % 8 == 7) device.Commit();
  }
  const bool marked = canary.item<float>() == kRounds;
  const at::Tensor host = x.cpu();
  return marked && at::equal(host, at::full_like(host, kRounds + 1)) ? 0 : 1;
}

}  // namespace

std::vector<Check> DeviceChecks(const Sizes&) {
  // In standard deviations: chance exceeds five once in two million checks.
  constexpr double kDeviations = 5;
  return {
      {"copies to the device and back", "7 dtypes × 1001", 0, RoundTrips},
      {"casts", "float32, bfloat16, int64 × 4096", 0, Casts},
      {"copies of views", "6 × 10 × 8", 0, Views},
      {"gather, scatter, select, where", "50 × 12", 0, Indexing},
      {"whole numbers and truth", "40 × 12", 0, WholeNumbers},
      {"numbers that are not finite are found", "1000", 0, FiniteNumbers},
      {"random numbers, moments in deviations", "262144", kDeviations, Moments},
      {"random numbers repeat", "1000", 0, Repeats},
      {"dropout, share in deviations", "262144", kDeviations, Dropout},
      {"clipping and AdamW, 3 steps", "1961 + 53 + 4194304", kFloatTolerance,
       AdamW},
      {"no work is lost", "24 products of 384 × 384", 0, LostWork},
  };
}

}  // namespace mpsd::selftest
