// SPDX-License-Identifier: Apache-2.0
#include "client/plot/axis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace mpsd::client {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();
constexpr double kSmallest = std::numeric_limits<double>::denorm_min();

struct Case {
  Spread spread;
  double low;
  double high;
  int most;
  double least_step;
  const char* ticks;
};

std::string Ticks(const Case& c) {
  Axis axis(c.spread);
  axis.Add(c.high);
  axis.Add(c.low);
  std::string text;
  double last = -INFINITY;
  for (const Tick& tick : axis.Ticks(c.most, c.least_step)) {
    EXPECT_GT(tick.value, last);
    EXPECT_GE(tick.value, c.low * (c.low < 0 ? 1.001 : 0.999));
    last = tick.value;
    text += (text.empty() ? "" : " ") + tick.text;
  }
  return text;
}

TEST(AxisTest, GoldenTicks) {
  constexpr Spread kLinear = Spread::kLinear, kLog = Spread::kLogarithmic;
  const Case cases[] = {
      {kLinear, 0, 1, 5, 0, "0 0.2 0.4 0.6 0.8 1.0"},
      {kLinear, 0.31, 2.46, 5, 0, "0.5 1.0 1.5 2.0"},
      {kLinear, 1, 1000, 5, 0, "200 400 600 800 1,000"},
      {kLinear, 1, 2, 5, 1, "1 2"},
      {kLinear, 0, 10'000'000, 2, 0, "0 5e+06 1e+07"},
      {kLinear, 0, 5e-5, 5, 0, "0 1e-05 2e-05 3e-05 4e-05 5e-05"},
      {kLinear, -3, 3, 4, 0, "-2 0 2"},
      {kLinear, -1.5, -1.1, 4, 0, "-1.5 -1.4 -1.3 -1.2 -1.1"},
      {kLinear, 2.51, 2.53, 1, 0, "2.5100 2.5300"},
      {kLinear, -kLargest, kLargest, 5, 0, "-1e+308 0 1e+308"},
      {kLinear, -kLargest, kLargest, 1, 0, "-1.8e+308 1.8e+308"},
      {kLinear, 0, kSmallest, 4, 0, "0 5e-324"},
      {kLinear, 1, std::nextafter(1, 2), 4, 0, "1 1.0000000000000002"},
      {kLinear, 1, 1000, 1, 1, "1 1,000"},
      {kLinear, 7, 7, 4, 1, "7"},
      {kLinear, -2.5, -2.5, 4, 0, "-2.5"},
      {kLinear, 0, 0, 4, 0, "0"},
      {kLog, 0.36, 2.4, 4, 0, "0.5 1 2"},
      {kLog, 1e-6, 1, 3, 0, "1e-06 0.0001 0.01 1"},
      {kLog, kSmallest, kLargest, 2, 0, "1e-08 1e+308"},
      {kLog, 2.1, 2.2, 3, 0, "2.10 2.15 2.20"},
      {kLog, 3, 3, 3, 0, "3"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(Ticks(c), c.ticks) << c.low << " to " << c.high;
  }
}

TEST(AxisTest, WithoutValues) {
  Axis axis(Spread::kLinear);
  EXPECT_EQ(axis.low(), 0);
  EXPECT_EQ(axis.high(), 1);
  EXPECT_EQ(axis.Ticks(2, 0).size(), 3u);
  EXPECT_EQ(Axis(Spread::kLogarithmic).low(), 1);
  EXPECT_EQ(Axis(Spread::kLogarithmic).Ticks(2, 0).size(), 4u);
}

TEST(AxisTest, WhatItHolds) {
  const Axis linear(Spread::kLinear), logarithmic(Spread::kLogarithmic);
  for (const double v : {NAN, INFINITY, -INFINITY}) {
    EXPECT_FALSE(linear.Holds(v));
    EXPECT_FALSE(logarithmic.Holds(v));
  }
  for (const double v : {0.0, -1.0}) {
    EXPECT_TRUE(linear.Holds(v));
    EXPECT_FALSE(logarithmic.Holds(v));
  }
  EXPECT_TRUE(logarithmic.Holds(kSmallest));
}

TEST(AxisTest, Shares) {
  Axis linear(Spread::kLinear);
  linear.Add(-kLargest);
  linear.Add(kLargest);
  EXPECT_EQ(linear.Share(-kLargest), 0);
  EXPECT_EQ(linear.Share(0), 0.5);
  EXPECT_EQ(linear.Share(kLargest), 1);
  Axis logarithmic(Spread::kLogarithmic);
  logarithmic.Add(1);
  logarithmic.Add(100);
  EXPECT_EQ(logarithmic.Share(10), 0.5);
  EXPECT_EQ(logarithmic.Share(1000), 1);
}

TEST(AxisTest, EqualValuesLieInTheMiddle) {
  for (const double v : {0.0, 2.5, -7.0, 1e-300}) {
    Axis axis(Spread::kLinear);
    axis.Add(v);
    EXPECT_NEAR(axis.Share(v), 0.5, 1e-9) << v;
  }
  // Next to the largest there is no room above.
  for (const double v : {kLargest, -kLargest, kSmallest}) {
    Axis axis(Spread::kLinear);
    axis.Add(v);
    EXPECT_GE(axis.Share(v), 0) << v;
    EXPECT_LE(axis.Share(v), 1) << v;
  }
  for (const double v : {kSmallest, 3.0, kLargest}) {
    Axis axis(Spread::kLogarithmic);
    axis.Add(v);
    EXPECT_GE(axis.Share(v), 0) << v;
    EXPECT_LE(axis.Share(v), 1) << v;
  }
}

TEST(AxisDeathTest, NoValueThatItCannotHold) {
  Axis axis(Spread::kLinear);
  EXPECT_DEATH(axis.Add(NAN), "a value that it cannot hold");
}

}  // namespace
}  // namespace mpsd::client
