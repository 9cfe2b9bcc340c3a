// SPDX-License-Identifier: Apache-2.0
#include "core/runbook/parity_trace.h"

#include <cmath>
#include <limits>

#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::runbook {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

ParityTrace Example() {
  ParityTrace trace;
  trace.device = "mps";
  trace.description = "Apple M2";
  trace.dtype = "bf16";
  trace.mpsd_version = "1";
  trace.torch_version = "2";
  trace.gradients = "explicit";
  trace.losses = {2.5, 2.25};
  trace.grad_norms = {1, 2};
  trace.batches = {"aa", "bb"};
  trace.start = "cc";
  trace.tensors = {{"w", 3, {1, "d", {1, 2}}, {2, "e", {}}, {3, "f", {4}}}};
  trace.metric = "accuracy";
  trace.metric_value = 0.5;
  return trace;
}

TEST(ParityTrace, GoesThereAndBack) {
  const json there = ToJson(Example());
  const auto back = TraceFromJson(there);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(ToJson(*back), there);
  EXPECT_EQ(back->tensors[0].gradient.probes, (std::vector<float>{1, 2}));
  EXPECT_EQ(back->metric_value, 0.5);
}

// What Protocol Buffers leave out has its default.
TEST(ParityTrace, AbsentMembersHaveDefaults) {
  const auto trace = TraceFromJson({{"losses", {1.0}}, {"dtype", "fp32"}});
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_THAT(trace->tensors, testing::IsEmpty());
  EXPECT_EQ(trace->metric, "");
}

TEST(ParityTrace, HostileTextsAreRefusedWithTheirMember) {
  const json good = ToJson(Example());
  const auto message = [&](const char* member, json value) {
    json bad = good;
    bad[member] = std::move(value);
    const auto trace = TraceFromJson(bad);
    EXPECT_EQ(trace.status().code(), absl::StatusCode::kInvalidArgument)
        << member;
    return std::string(trace.status().message());
  };
  EXPECT_THAT(message("losses", "NaN"), HasSubstr("trace.losses"));
  EXPECT_THAT(message("losses", {"NaN"}), HasSubstr("trace.losses"));
  EXPECT_THAT(message("losses", json::array()), HasSubstr("trace.losses"));
  EXPECT_EQ(message("losses", {1.0, "NaN"}),
            "trace.losses: must be a finite number, is \"NaN\"");
  EXPECT_THAT(message("dtype", "fp8"), HasSubstr("trace.dtype"));
  EXPECT_THAT(message("device", 7), HasSubstr("trace.device"));
  EXPECT_THAT(message("start", std::string(5000, 'x')),
              HasSubstr("trace.start"));
  EXPECT_THAT(message("tensors", {1}), HasSubstr("trace.tensors[0]"));
  EXPECT_THAT(message("tensors", {{{"elements", -1}}}),
              HasSubstr("trace.tensors[0].elements"));
  EXPECT_THAT(
      message("tensors", {{{"gradient", {{"probes", {1, 2, 3, 4, 5}}}}}}),
      HasSubstr("trace.tensors[0].gradient.probes"));
  EXPECT_EQ(TraceFromJson(json::array()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ParityTrace, BoundsAreHeldAtTheirValueAndOnePast) {
  json json = ToJson(Example());
  json["losses"] = std::vector<double>(limits::kRecordedLosses, 1.0);
  EXPECT_TRUE(TraceFromJson(json).ok());
  json["losses"].push_back(1.0);
  EXPECT_FALSE(TraceFromJson(json).ok());
  json["losses"] = {1.0};
  json["tensors"] =
      std::vector<nlohmann::json>(kTracedTensors, nlohmann::json::object());
  EXPECT_TRUE(TraceFromJson(json).ok());
  json["tensors"].push_back(nlohmann::json::object());
  EXPECT_FALSE(TraceFromJson(json).ok());
}

TEST(ParityTrace, JsonHasNoMoreTensorsThanItIsReadBackWith) {
  ParityTrace trace = Example();
  trace.tensors.resize(kTracedTensors + 1);
  EXPECT_EQ(ToJson(trace)["tensors"].size(), kTracedTensors);
}

TEST(Summarize, HasNormDigestAndValues) {
  const std::vector<float> values = {3, 0, 0, 4, 0, 0, 0, 0};
  const TensorSummary summary = Summarize(values);
  EXPECT_DOUBLE_EQ(summary.norm, 5);
  EXPECT_EQ(summary.sha256.size(), kDigestDigits);
  EXPECT_THAT(summary.probes, ElementsAre(3, 0, 0, 0));
  std::vector<float> other = values;
  other[5] = 1e-30f;
  EXPECT_NE(Summarize(other).sha256, summary.sha256);
  EXPECT_THAT(Summarize(std::vector<float>{7}).probes, ElementsAre(7));
  EXPECT_THAT(Summarize({}).probes, testing::IsEmpty());
}

TEST(RecordedRun, IsRead) {
  const auto run = RecordedFromJson({{"steps", {1, 2, 5}},
                                     {"losses", {3.0, 2.5, 2}},
                                     {"label_tokens", {7, 8, 9}},
                                     {"metric", "accuracy"},
                                     {"metric_value", 0.75},
                                     {"metric_step", 5}});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_THAT(run->steps, ElementsAre(1, 2, 5));
  EXPECT_THAT(run->losses, ElementsAre(3, 2.5, 2));
  EXPECT_THAT(run->label_tokens, ElementsAre(7, 8, 9));
  EXPECT_EQ(run->metric_step, 5);
}

TEST(RecordedRun, WhatContradictsItselfIsRefused) {
  for (const json& bad :
       {json::object(), json({{"steps", {1}}}),
        json({{"steps", {1, 2}}, {"losses", {1.0}}}),
        json({{"steps", {2, 1}}, {"losses", {1.0, 1.0}}}),
        json({{"steps", {1, 1}}, {"losses", {1.0, 1.0}}}),
        json({{"steps", {0}}, {"losses", {1.0}}}),
        json({{"steps", {1.5}}, {"losses", {1.0}}}),
        json({{"steps", {1}}, {"losses", {1.0}}, {"grad_norms", {1, 2}}}),
        json({{"steps", {1}}, {"losses", {1.0}}, {"label_tokens", {1, 2}}})}) {
    EXPECT_EQ(RecordedFromJson(bad).status().code(),
              absl::StatusCode::kInvalidArgument)
        << bad;
  }
}

}  // namespace
}  // namespace mpsd::runbook
