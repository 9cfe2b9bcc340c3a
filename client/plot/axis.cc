// SPDX-License-Identifier: Apache-2.0
#include "client/plot/axis.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/strings/str_format.h"
#include "client/text/format.h"
#include "core/base/check.h"

namespace mpsd::client {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();
// Larger multiples of a step are no exact doubles.
constexpr double kExact = 9007199254740992;

// The least of 1, 2, 5 and 10 times a power of ten that is at least `step`.
double RoundStep(double step) {
  const double power = std::pow(10, std::floor(std::log10(step)));
  for (const double factor : {1, 2, 5}) {
    // A hair of tolerance: 0.2 may come as 0.20000000000000001.
    if (power * factor >= step * (1 - 1e-9)) return power * factor;
  }
  return power * 10;
}

int DecimalExponent(double value) {
  return static_cast<int>(std::floor(std::log10(std::abs(value)) + 1e-9));
}

// `value` in as many digits as tell it from a neighbour `step` away, on an axis
// whose largest magnitude is `largest`.
std::string TickText(double value, double step, double largest) {
  if (value == 0) return "0";
  if (largest >= 1e-3 && largest < 1e7) {
    const int decimals = std::max(0, -DecimalExponent(step));
    if (decimals == 0) return Count(value);
    if (decimals <= 6) return absl::StrFormat("%.*f", decimals, value);
  }
  const int digits = DecimalExponent(largest) - DecimalExponent(step) + 1;
  return absl::StrFormat("%.*g", std::clamp(digits, 1, 17), value);
}

std::vector<Tick> Texts(const std::vector<double>& values, double step) {
  double largest = 0;
  for (const double v : values) largest = std::max(largest, std::abs(v));
  std::vector<Tick> ticks;
  ticks.reserve(values.size());
  for (const double v : values) {
    ticks.push_back({v, TickText(v, step, largest)});
  }
  return ticks;
}

bool IsCount(double value) {
  return std::abs(value) < 1e7 && std::trunc(value) == value;
}

// The ends of an axis, in three digits of what lies between them.
std::vector<Tick> Ends(double low, double high) {
  if (IsCount(low) && IsCount(high)) return Texts({low, high}, 1);
  const double step = high / 200 - low / 200;
  return Texts({low, high},
               std::max(step, std::numeric_limits<double>::denorm_min()));
}

std::vector<Tick> LinearTicks(double low, double high, int most,
                              double least_step) {
  // Halves, because the whole range may be more than a double holds.
  const double half = high / 2 - low / 2;
  double step = half / most * 2;
  if (!(step > 0) || !std::isfinite(RoundStep(step))) return Ends(low, high);
  step = std::max(RoundStep(step), least_step);
  const double first = std::ceil(low / step - 1e-9);
  const double last = std::floor(high / step + 1e-9);
  if (!(std::max(std::abs(first), std::abs(last)) < kExact)) {
    return Ends(low, high);
  }
  std::vector<double> values;
  for (auto i = static_cast<int64_t>(first); i <= static_cast<int64_t>(last);
       ++i) {
    values.push_back(static_cast<double>(i) * step);
  }
  return values.size() < 2 ? Ends(low, high) : Texts(values, step);
}

std::vector<Tick> LogarithmicTicks(double low, double high, int most) {
  const double decades = std::log10(high) - std::log10(low);
  const bool in_between = decades * 3 <= most + 1;
  const int stride = std::max(1, static_cast<int>(std::ceil(decades / most)));
  const int highest = static_cast<int>(std::ceil(std::log10(high)));
  std::vector<Tick> ticks;
  for (int power = static_cast<int>(std::floor(std::log10(low)));
       power <= highest; power += stride) {
    for (const double factor : {1, 2, 5}) {
      if (factor > 1 && !in_between) break;
      const double value = factor * std::pow(10, power);
      if (value < low || value > high) continue;
      ticks.push_back({value, TickText(value, value, value)});
    }
  }
  return ticks.size() < 2 ? LinearTicks(low, high, most, 0) : ticks;
}

}  // namespace

bool Axis::Holds(double value) const {
  return std::isfinite(value) && (spread_ == Spread::kLinear || value > 0);
}

void Axis::Add(double value) {
  base::Check(Holds(value), "an axis was given a value that it cannot hold");
  least_ = empty_ ? value : std::min(least_, value);
  greatest_ = empty_ ? value : std::max(greatest_, value);
  empty_ = false;
}

double Axis::low() const {
  if (least_ < greatest_) return least_;
  if (spread_ == Spread::kLogarithmic) {
    return std::max(least_ / 2, std::numeric_limits<double>::denorm_min());
  }
  return least_ == 0 ? -1
                     : std::max(least_ - std::abs(least_) * 0.1, -kLargest);
}

double Axis::high() const {
  if (least_ < greatest_) return greatest_;
  if (spread_ == Spread::kLogarithmic) {
    return std::min(greatest_, kLargest / 2) * 2;
  }
  return greatest_ == 0
             ? 1
             : std::min(greatest_ + std::abs(greatest_) * 0.1, kLargest);
}

double Axis::Share(double value) const {
  double low = this->low(), high = this->high();
  if (spread_ == Spread::kLogarithmic) {
    low = std::log10(low);
    high = std::log10(high);
    value = std::log10(value);
  }
  if (!(low < high)) return 0.5;
  // Halves, because the whole range may be more than a double holds.
  return std::clamp((value / 2 - low / 2) / (high / 2 - low / 2), 0.0, 1.0);
}

std::vector<Tick> Axis::Ticks(int most, double least_step) const {
  if (!empty_ && least_ == greatest_) {
    return {{least_, IsCount(least_) ? Count(least_)
                                     : absl::StrFormat("%.6g", least_)}};
  }
  most = std::max(most, 1);
  return spread_ == Spread::kLogarithmic
             ? LogarithmicTicks(low(), high(), most)
             : LinearTicks(low(), high(), most, least_step);
}

}  // namespace mpsd::client
