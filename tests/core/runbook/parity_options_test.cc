// SPDX-License-Identifier: Apache-2.0
#include "core/runbook/parity_options.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::runbook {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(ParityOptions, HaveDefaults) {
  const auto options = ParityOptionsFromJson(json::object());
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->steps, 10);
  EXPECT_FALSE(options->device || options->reference_device || options->trace ||
               options->recorded);
}

TEST(ParityOptions, AreRead) {
  auto options = ParityOptionsFromJson(
      {{"steps", 3}, {"device", "mps"}, {"reference_device", "cpu"}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->steps, 3);
  EXPECT_EQ(options->device, backend::Choice::kMps);
  EXPECT_EQ(options->reference_device, backend::Choice::kCpu);
  options = ParityOptionsFromJson(
      {{"recorded", {{"steps", {1}}, {"losses", {2.0}}}}, {"name", "x.jsonl"}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->recorded->losses.size(), 1u);
  EXPECT_EQ(options->name, "x.jsonl");
  options = ParityOptionsFromJson(
      {{"trace", {{"losses", {2.0}}, {"dtype", "fp32"}}}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_TRUE(options->trace);
}

TEST(ParityOptions, AreHeldToTheirBounds) {
  EXPECT_TRUE(ParityOptionsFromJson({{"steps", kMostParitySteps}}).ok());
  const auto message = [](const json& options) {
    const auto parsed = ParityOptionsFromJson(options);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument)
        << options;
    return std::string(parsed.status().message());
  };
  EXPECT_THAT(message({{"steps", kMostParitySteps + 1}}), HasSubstr("steps"));
  EXPECT_THAT(message({{"steps", -1}}), HasSubstr("steps"));
  EXPECT_THAT(message({{"steps", "3"}}), HasSubstr("steps"));
  EXPECT_TRUE(ParityOptionsFromJson({{"name", std::string(256, 'x')}}).ok());
  EXPECT_EQ(message({{"name", std::string(257, 'x')}}),
            "name: has 257 bytes, at most 256 are allowed");
  EXPECT_EQ(message({{"device", "auto"}}),
            "device: must be cpu, cuda or mps, is \"auto\"");
  EXPECT_THAT(message({{"reference_device", 1}}),
              HasSubstr("reference_device"));
  EXPECT_THAT(message({{"trace", 1}}), HasSubstr("trace"));
  EXPECT_THAT(message({{"recorded", json::object()}}), HasSubstr("recorded"));
  EXPECT_THAT(message({{"reference_device", "cpu"},
                       {"recorded", {{"steps", {1}}, {"losses", {2.0}}}}}),
              HasSubstr("at most one"));
}

}  // namespace
}  // namespace mpsd::runbook
