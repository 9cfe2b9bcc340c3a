// SPDX-License-Identifier: Apache-2.0
#include "core/plan/chips.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::plan {
namespace {

TEST(Chips, EachRowHasASourceAndPossibleFigures) {
  for (const Chip& chip : Chips()) {
    SCOPED_TRACE(std::string(chip.name) + " " + std::to_string(chip.gpu_cores));
    EXPECT_GT(std::string(chip.source).size(), 20u);
    EXPECT_GT(std::string(chip.memory).size(), 0u);
    EXPECT_GT(chip.fp32_tera, 1);
    EXPECT_GE(chip.half_tera, chip.fp32_tera);
    EXPECT_GT(chip.giga_bytes, 60);
    for (const double share :
         {chip.fp32_share, chip.half_share, chip.bytes_share}) {
      EXPECT_GT(share, 0.3);
      EXPECT_LT(share, 1);
    }
  }
}

// Every tier from M1 to M4; Apple has sold no M4 Ultra.
TEST(Chips, EveryTierIsThere) {
  for (const char* generation : {"M1", "M2", "M3", "M4"}) {
    for (const char* tier : {"", " Pro", " Max", " Ultra"}) {
      const std::string name = std::string("Apple ") + generation + tier;
      EXPECT_EQ(FindChip(name, 0) != nullptr, name != "Apple M4 Ultra") << name;
    }
  }
}

// Figures that Apple or others tell: 2.6 TFLOP/s of an M1, 10.4 of an M1 Max,
// 13.6 of an M2 Max.
TEST(Chips, TheDerivedRatesAreThoseThatAreTold) {
  EXPECT_NEAR(FindChip("Apple M1", 8)->fp32_tera, 2.6, 0.1);
  EXPECT_NEAR(FindChip("Apple M1 Max", 32)->fp32_tera, 10.4, 0.3);
  EXPECT_NEAR(FindChip("Apple M2 Max", 38)->fp32_tera, 13.6, 0.1);
}

// The GEMM of arXiv 2502.05317: 1.36, 2.24, 2.47 and 2.9 TFLOP/s.
TEST(Chips, WhatIsAttainedIsWhatWasMeasured) {
  const auto attained = [](const char* name, int64_t cores) {
    return RatesOf(*FindChip(name, cores)).fp32_operations / 1e12;
  };
  EXPECT_NEAR(attained("Apple M1", 8), 1.36, 0.05);
  EXPECT_NEAR(attained("Apple M2", 10), 2.24, 0.05);
  EXPECT_NEAR(attained("Apple M3", 10), 2.47, 0.05);
  EXPECT_NEAR(attained("Apple M4", 10), 2.9, 0.05);
  EXPECT_NEAR(attained("Apple M3 Max", 40), 10.3, 0.1);
}

TEST(Chips, ANameMeansItsOwnTierAndCores) {
  EXPECT_EQ(FindChip("Apple M2", 10)->gpu_cores, 10);
  EXPECT_STREQ(FindChip("Apple M2 Max", 38)->name, "Apple M2 Max");
  // Not told, or a number that nobody has seen: the fewest.
  EXPECT_EQ(FindChip("Apple M2 Max", 0)->gpu_cores, 30);
  EXPECT_EQ(FindChip("Apple M2 Max", 99)->gpu_cores, 30);
  EXPECT_STREQ(FindChip("NVIDIA H100 80GB HBM3", 0)->name, "NVIDIA H100");
  EXPECT_EQ(FindChip("Apple M9", 10), nullptr);
  EXPECT_EQ(FindChip("Apple M22", 10), nullptr);
  EXPECT_EQ(FindChip("", 0), nullptr);
}

// NVIDIA sells slower cards by the same name, and cards can be cut up.
TEST(Chips, ACardMeansTheWholeOneOfTheTable) {
  EXPECT_STREQ(FindChip("NVIDIA H200", 0)->name, "NVIDIA H200");
  EXPECT_STREQ(FindChip("NVIDIA H100 64GB HBM2e", 0)->name, "NVIDIA H100");
  for (const char* name :
       {"NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA H200 NVL",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA H2000", "NVIDIA GH200"}) {
    EXPECT_EQ(FindChip(name, 0), nullptr) << name;
  }
}

TEST(Chips, TheSourceNamesTheChip) {
  EXPECT_THAT(RatesOf(*FindChip("Apple M4 Pro", 20)).source,
              testing::StartsWith("Apple M4 Pro (20 GPU cores); "));
}

}  // namespace
}  // namespace mpsd::plan
