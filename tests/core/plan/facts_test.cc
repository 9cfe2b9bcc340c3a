// SPDX-License-Identifier: Apache-2.0
#include "core/plan/facts.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string ErrorOf(const std::string& json) {
  const auto facts = ParseFacts(json);
  EXPECT_TRUE(absl::IsInvalidArgument(facts.status())) << json;
  return std::string(facts.status().message());
}

TEST(Facts, NothingIsTold) {
  const auto facts = ParseFacts("{}");
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->chip, "");
  EXPECT_EQ(facts->memory_limit_bytes, 0);
  EXPECT_FALSE(facts->rates || facts->pace || facts->probe);
  EXPECT_EQ(facts->thresholds.Get("plan.memory"), 0.9);
}

TEST(Facts, AllIsTold) {
  const auto facts = ParseFacts(R"({
    "read_roots": ["/data"], "device": "mps", "chip": "Apple M2 Max",
    "gpu_cores": 38, "cpu_cores": 12, "memory_bytes": 68719476736,
    "memory_limit_bytes": "51539607552", "disk_free_bytes": 7,
    "thresholds": {"plan.memory": 0.5}, "later": [1],
    "rates": {"fp32_operations": 1e12, "half_operations": 2e12,
              "bytes": 3e11, "call_seconds": 1e-5, "source": "here"},
    "pace": {"runs": 3, "step_seconds": 0.5, "tokens_per_second": 100},
    "probe": {"step_seconds": {"median": 2.5, "p10": 2}, "peak_bytes": "12",
              "out_of_memory": true}})");
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_THAT(facts->read_roots, ElementsAre("/data"));
  EXPECT_EQ(facts->gpu_cores, 38);
  // Protocol Buffers write 64-bit integers as texts.
  EXPECT_EQ(facts->memory_limit_bytes, int64_t{48} << 30);
  EXPECT_EQ(facts->thresholds.Get("plan.memory"), 0.5);
  EXPECT_EQ(facts->rates->half_operations, 2e12);
  EXPECT_EQ(facts->rates->source, "here");
  EXPECT_EQ(facts->pace->runs, 3);
  EXPECT_EQ(facts->probe->peak_bytes, 12);
  EXPECT_EQ(facts->probe->step_seconds, 2.5);
  EXPECT_TRUE(facts->probe->out_of_memory);
}

TEST(Facts, AFaultNamesItsMember) {
  EXPECT_THAT(ErrorOf("["), HasSubstr("expected a JSON object"));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("expected a JSON object"));
  EXPECT_THAT(ErrorOf(std::string(100'000, '[')), HasSubstr("JSON object"));
  EXPECT_THAT(ErrorOf(R"({"chip": 3})"), HasSubstr("facts.chip: expected"));
  EXPECT_THAT(ErrorOf(R"({"gpu_cores": -1})"), HasSubstr("facts.gpu_cores"));
  EXPECT_THAT(ErrorOf(R"({"gpu_cores": "many"})"),
              HasSubstr("facts.gpu_cores: expected a number"));
  EXPECT_THAT(ErrorOf(R"({"read_roots": [1]})"), HasSubstr("read_roots"));
  EXPECT_THAT(ErrorOf(R"({"pace": {"step_seconds": "nan"}})"),
              HasSubstr("facts.pace.step_seconds"));
  EXPECT_THAT(ErrorOf(R"({"probe": 1})"), HasSubstr("facts.probe"));
  EXPECT_THAT(ErrorOf(R"({"probe": {"step_seconds": 2}})"),
              HasSubstr("facts.probe.step_seconds: expected an object"));
  EXPECT_THAT(ErrorOf(R"({"probe": {"out_of_memory": 1}})"),
              HasSubstr("out_of_memory"));
  EXPECT_THAT(ErrorOf(R"({"rates": []})"), HasSubstr("facts.rates"));
  EXPECT_THAT(ErrorOf(R"({"thresholds": [1]})"), HasSubstr("thresholds"));
  EXPECT_THAT(ErrorOf(R"({"thresholds": {"plan.nothing": 1}})"),
              HasSubstr("plan.nothing"));
}

}  // namespace
}  // namespace mpsd::plan
