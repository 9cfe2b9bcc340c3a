// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_PLOT_AXIS_H_
#define MPSD_CLIENT_PLOT_AXIS_H_

#include <string>
#include <vector>

namespace mpsd::client {

// How an axis spreads its values.
enum class Spread {
  kLinear,
  kLogarithmic,  // holds values above 0 alone
};

struct Tick {
  double value = 0;
  std::string text;  // "0.25", "1,000", "2e-05"
};

// One axis of a chart, over finite values of any size.
class Axis {
 public:
  // Spans 0 to 1 (logarithmic: 1 to 10) until the first value is added.
  explicit Axis(Spread spread)
      : spread_(spread),
        least_(spread == Spread::kLinear ? 0 : 1),
        greatest_(spread == Spread::kLinear ? 1 : 10) {}

  // Whether the axis can hold `value`: finite, and above 0 where the spread is
  // logarithmic.
  bool Holds(double value) const;
  // Widens the axis to `value`, which it must hold.
  void Add(double value);

  // The ends. Values that are all equal lie in the middle.
  double low() const;
  double high() const;
  // Where `value` lies: 0 at low(), 1 at high(), bounded by both.
  double Share(double value) const;

  // Ticks at multiples of 1, 2 or 5 times a power of ten, about `most` of them
  // and rarely more, in rising order and at least `least_step` apart (1 where
  // values are counts; 0: anything). The ends where fewer than two such
  // multiples lie between them; the one value where all are equal.
  std::vector<Tick> Ticks(int most, double least_step) const;

 private:
  const Spread spread_;
  bool empty_ = true;
  double least_;
  double greatest_;
};

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_PLOT_AXIS_H_
