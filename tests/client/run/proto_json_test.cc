// SPDX-License-Identifier: Apache-2.0
#include "client/run/proto_json.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "mpsd/v1/jobs.pb.h"

namespace mpsd::client {
namespace {

using nlohmann::json;

TEST(ProtoJsonTest, HasTheProtosNamesAndNoZeros) {
  v1::JobEvent event;
  event.mutable_time()->set_seconds(1767323045);
  event.mutable_progress()->set_step(int64_t{1} << 60);
  event.mutable_progress()->set_learning_rate(0.25);
  EXPECT_EQ(
      json::parse(ProtoJson(event)),
      json({{"time", "2026-01-02T03:04:05Z"},
            {"progress",
             {{"step", "1152921504606846976"}, {"learning_rate", 0.25}}}}));
}

TEST(ProtoJsonTest, NumbersThatAreNotFiniteAreTexts) {
  v1::Evaluated evaluated;
  evaluated.set_eval_loss(std::numeric_limits<double>::quiet_NaN());
  (*evaluated.mutable_metrics())["a"] =
      -std::numeric_limits<double>::infinity();
  EXPECT_EQ(json::parse(ProtoJson(evaluated)),
            json({{"eval_loss", "NaN"}, {"metrics", {{"a", "-Infinity"}}}}));
}

TEST(ProtoJsonTest, ATimeWithoutJsonLosesItsMessageAlone) {
  v1::JobEvent event;
  event.mutable_time()->set_seconds(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(json::parse(ProtoJson(event)), json::object());
}

}  // namespace
}  // namespace mpsd::client
