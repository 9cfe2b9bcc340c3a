// SPDX-License-Identifier: Apache-2.0
#include "server/store/event_body.h"

#include <cmath>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "gtest/gtest.h"

namespace mpsd::store {
namespace {

using Warnings = std::vector<std::string>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

jobs::Progress SomeProgress() {
  jobs::Progress progress;
  progress.step = 3;
  progress.total_steps = 9;
  progress.epoch = 0.5;
  progress.loss = 1.0 / 3.0;
  progress.learning_rate = 1e-4;
  progress.grad_norm = 2;
  progress.tokens = 100;
  progress.label_tokens = 60;
  progress.seconds = 0.25;
  progress.padding_ratio = 0.125;
  progress.data_wait_ratio = 0.5;
  progress.tokens_per_second = 400;
  progress.eta_seconds = 1.5;
  progress.device = "mps";
  progress.memory.current_allocated_bytes = 1;
  progress.memory.driver_allocated_bytes = 2;
  progress.memory.recommended_max_bytes = 3;
  progress.memory.footprint_bytes = 1LL << 40;
  progress.memory.peak_allocated_bytes = 5;
  progress.cpu_fallback_ops = {{"aten::a", 2}};
  return progress;
}

TEST(EventBody, EveryKindComesBackAsWritten) {
  const EventBody bodies[] = {
      jobs::StateChanged{jobs::State::kFailed, "line 1\nline \"2\""},
      SomeProgress(),
      jobs::Evaluated{5, 2.25, 9, 0.5, {{"f1", 0.5}, {"a", kNan}}},
      jobs::Checkpoint{{5, "/c/5", 77, 0.5}, absl::FromUnixMicros(123456789)},
      jobs::Note{"loading"}};
  int kind = 0;
  for (const EventBody& body : bodies) {
    EXPECT_EQ(KindOf(body), ++kind);
    const std::string text = EncodeBody(body);
    auto decoded = DecodeBody(kind, text);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->index(), body.index());
    EXPECT_EQ(EncodeBody(*decoded), text);
  }
  EXPECT_EQ(KindOf(bodies[1]), kProgressKind);
}

TEST(EventBody, ProgressKeepsItsMembers) {
  auto progress = DecodeColumn<jobs::Progress>(EncodeColumn(SomeProgress()));
  ASSERT_TRUE(progress.ok()) << progress.status();
  EXPECT_EQ(progress->step, 3);
  EXPECT_EQ(progress->loss, 1.0 / 3.0);
  EXPECT_EQ(progress->device, "mps");
  EXPECT_EQ(progress->padding_ratio, 0.125);
  EXPECT_EQ(progress->data_wait_ratio, 0.5);
  EXPECT_EQ(progress->memory.footprint_bytes, 1LL << 40);
  EXPECT_EQ(progress->memory.peak_allocated_bytes, 5);
  EXPECT_EQ(progress->cpu_fallback_ops, SomeProgress().cpu_fallback_ops);
}

// To the byte, as the rows of every release.
TEST(EventBody, BodiesAreThoseOfTheFirstRelease) {
  EXPECT_EQ(
      EncodeColumn(SomeProgress()),
      R"({"step":3,"total_steps":9,"epoch":0.5,"loss":0.3333333333333333,)"
      R"("learning_rate":0.0001,"grad_norm":2.0,"tokens":100,)"
      R"("label_tokens":60,"step_seconds":0.25,"padding_ratio":0.125,)"
      R"("data_wait_ratio":0.5,"tokens_per_second":400.0,"eta_seconds":1.5,)"
      R"("device":"mps","current_allocated_bytes":1,)"
      R"("driver_allocated_bytes":2,"recommended_max_bytes":3,)"
      R"("footprint_bytes":1099511627776,"peak_allocated_bytes":5,)"
      R"("cpu_fallback_ops":{"aten::a":2}})");
  EXPECT_EQ(EncodeBody(jobs::StateChanged{jobs::State::kFailed, "why"}),
            R"({"state":4,"message":"why"})");
  EXPECT_EQ(EncodeBody(jobs::Evaluated{5, 2.25, 9, 0.5, {{"f1", kNan}}, true}),
            R"({"step":5,"eval_loss":2.25,"metrics":{"f1":null}})");
  EXPECT_EQ(EncodeBody(jobs::Checkpoint{{5, "/c/5", 77, 0.5},
                                        absl::FromUnixMicros(123456789)}),
            R"({"step":5,"path":"/c/5","size_bytes":77,"seconds":0.5,)"
            R"("create_time_us":123456789})");
}

TEST(EventBody, AWarningIsANoteThatSaysSo) {
  const std::string text = EncodeBody(jobs::Note{"memory grows", true});
  EXPECT_EQ(text, R"({"text":"memory grows","is_warning":true})");
  auto note = DecodeBody(5, text);
  ASSERT_TRUE(note.ok()) << note.status();
  EXPECT_TRUE(std::get<jobs::Note>(*note).is_warning);
  // As before there were warnings, and as what is none is still written.
  note = DecodeBody(5, R"({"text":"loading"})");
  ASSERT_TRUE(note.ok()) << note.status();
  EXPECT_FALSE(std::get<jobs::Note>(*note).is_warning);
  EXPECT_EQ(EncodeBody(*note), R"({"text":"loading"})");
}

TEST(EventBody, WarningsAreAList) {
  const std::vector<std::string> warnings = {"a \"b\"", "cut \xc3"};
  auto decoded = DecodeColumn<Warnings>(EncodeColumn(warnings));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, (std::vector<std::string>{"a \"b\"", "cut \uFFFD"}));
  EXPECT_TRUE(DecodeColumn<Warnings>(EncodeColumn(Warnings{}))->empty());
  for (const char* text : {"", "{}", "[1]", "[\"a\""}) {
    EXPECT_EQ(DecodeColumn<Warnings>(text).status().code(),
              absl::StatusCode::kDataLoss);
  }
}

TEST(EventBody, MetricsKeepTheirOrder) {
  const jobs::Metrics metrics = {{"spearmanr", 0.5}, {"pearson", kNan}};
  EXPECT_EQ(EncodeColumn(metrics), R"({"spearmanr":0.5,"pearson":null})");
  auto decoded = DecodeColumn<jobs::Metrics>(EncodeColumn(metrics));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ASSERT_EQ(decoded->size(), 2u);
  EXPECT_EQ((*decoded)[0], metrics[0]);
  EXPECT_TRUE(std::isnan((*decoded)[1].second));
  auto evaluated =
      DecodeColumn<jobs::Evaluated>(R"({"step": 3, "eval_loss": 2})");
  ASSERT_TRUE(evaluated.ok()) << evaluated.status();
  EXPECT_TRUE(evaluated->metrics.empty());
  for (const char* text : {"", "[]", R"({"f1": "good"})"}) {
    EXPECT_EQ(DecodeColumn<jobs::Metrics>(text).status().code(),
              absl::StatusCode::kDataLoss);
  }
}

TEST(EventBody, ANonFiniteLossIsNan) {
  jobs::Progress progress = SomeProgress();
  for (double loss : {kNan, HUGE_VAL, -HUGE_VAL}) {
    progress.loss = loss;
    auto decoded = DecodeColumn<jobs::Progress>(EncodeColumn(progress));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_TRUE(std::isnan(decoded->loss));
  }
}

TEST(EventBody, OldRowsReadWithDefaults) {
  auto progress =
      DecodeColumn<jobs::Progress>(R"({"step": 4, "gone_member": 1})");
  ASSERT_TRUE(progress.ok()) << progress.status();
  EXPECT_EQ(progress->step, 4);
  EXPECT_EQ(progress->tokens, 0);
  EXPECT_FALSE(progress->memory.footprint_bytes.has_value());
  EXPECT_FALSE(progress->padding_ratio.has_value());
}

TEST(EventBody, WhatItDidNotWriteIsDataLoss) {
  for (const char* text : {"", "[]", "{\"step\": \"4\"}", "{\"loss\": true}",
                           "{\"footprint_bytes\": 0.5}"}) {
    EXPECT_EQ(DecodeBody(2, text).status().code(), absl::StatusCode::kDataLoss)
        << text;
  }
  for (const char* text : {R"({"state": 9})", R"({"message": "no state"})"}) {
    EXPECT_EQ(DecodeBody(1, text).status().code(), absl::StatusCode::kDataLoss)
        << text;
  }
  EXPECT_EQ(DecodeBody(6, "{}").status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace mpsd::store
