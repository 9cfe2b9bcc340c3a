// SPDX-License-Identifier: Apache-2.0
#include "server/planner/facts.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace mpsd::planner {
namespace {

using nlohmann::json;

TEST(Facts, WhatNobodyKnowsIsLeftOut) {
  EXPECT_EQ(Encode(Facts()), "{}");
  Facts facts;
  facts.probe_json = "no JSON";
  EXPECT_EQ(Encode(facts), "{}");
}

TEST(Facts, TellsWhatIsKnown) {
  Facts facts;
  facts.read_roots = {"/a", "/b"};
  facts.device = "mps";
  facts.chip = "Apple M2 Max";
  facts.gpu_cores = 38;
  facts.cpu_cores = 12;
  facts.memory_bytes = int64_t{64} << 30;
  facts.memory_limit_bytes = int64_t{48} << 30;
  facts.disk_free_bytes = 0;
  facts.thresholds = {{"memory.share", 0.5}};
  facts.pace = Pace{3, 1000, 0.25, absl::FromUnixSeconds(1'700'000'000)};
  facts.probe_json = R"({"device": "mps"})";
  const json expected = {{"read_roots", {"/a", "/b"}},
                         {"device", "mps"},
                         {"chip", "Apple M2 Max"},
                         {"gpu_cores", 38},
                         {"cpu_cores", 12},
                         {"memory_bytes", int64_t{64} << 30},
                         {"memory_limit_bytes", int64_t{48} << 30},
                         {"disk_free_bytes", 0},
                         {"thresholds", {{"memory.share", 0.5}}},
                         {"pace",
                          {{"runs", 3},
                           {"step_seconds", 0.25},
                           {"tokens_per_second", 1000.0},
                           {"newest", "2023-11-14T22:13:20Z"}}},
                         {"probe", {{"device", "mps"}}}};
  EXPECT_EQ(json::parse(Encode(facts)), expected);
}

}  // namespace
}  // namespace mpsd::planner
