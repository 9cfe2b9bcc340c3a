// SPDX-License-Identifier: Apache-2.0
#include "core/runbook/option_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::runbook {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(Options, ZeroAndNothingMeanTheDefault) {
  EXPECT_EQ(*IntOption({{"steps", 0}}, "steps", 8, 1, 10), 8);
  EXPECT_EQ(*IntOption(json::object(), "steps", 8, 1, 10), 8);
  EXPECT_EQ(*IntOption({{"steps", 10}}, "steps", 8, 1, 10), 10);
  EXPECT_EQ(*NumberOption({{"bytes", 1.5e9}}, "bytes", 0, 1, 1e15), 1.5e9);
}

TEST(Options, OthersAreRefusedByName) {
  for (const json& value : {json(11), json(-1), json("8"), json(2.5),
                            json::array(), json(true), json(nullptr)}) {
    const auto read = IntOption({{"steps", value}}, "steps", 8, 1, 10);
    ASSERT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument)
        << value;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr("steps"));
  }
  EXPECT_EQ(IntOption({{"steps", 11}}, "steps", 8, 1, 10).status().message(),
            "steps: must be a whole number from 1 to 10, or 0 for mpsd's own "
            "choice, is 11");
}

TEST(Options, ZeroIsAValueOfAFieldWithPresence) {
  EXPECT_EQ(*IntIfThere(json::object(), "steps", 0, 10), std::nullopt);
  EXPECT_EQ(*IntIfThere({{"steps", 0}}, "steps", 0, 10), 0);
  EXPECT_EQ(IntIfThere({{"steps", 0}}, "steps", 1, 10).status().message(),
            "steps: must be a whole number from 1 to 10, is 0");
}

// Protocol Buffers spell what is not finite as a text.
TEST(Options, WhatWasGivenIsTold) {
  EXPECT_EQ(
      NumberOption({{"bytes", "NaN"}}, "bytes", 0, 1, 9).status().message(),
      "bytes: must be a number from 1 to 9, or 0 for mpsd's own choice, is "
      "\"NaN\"");
  EXPECT_EQ(DeviceNamed("device", "m\x1b[31mps").status().message(),
            "device: must be cpu, cuda or mps, is \"m\\u001b[31mps\"");
  const std::string told(
      DeviceNamed("device", std::string(5000, 'x')).status().message());
  EXPECT_LT(told.size(), 200u);
}

TEST(Options, DevicesAreNamed) {
  EXPECT_EQ(*DeviceNamed("device", "mps"), backend::Choice::kMps);
  for (const json& name : {json("auto"), json(""), json(1), json(nullptr)}) {
    EXPECT_EQ(DeviceNamed("device", name).status().code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
}

}  // namespace
}  // namespace mpsd::runbook
