// SPDX-License-Identifier: Apache-2.0
#include "core/wire/messages.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/core/status_matchers.h"

namespace mpsd::wire {
namespace {

using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Progress SomeProgress() {
  Progress p;
  p.step = 7;
  p.total_steps = 100;
  p.epoch = 0.25;
  p.loss = 1.0 / 3.0;
  p.learning_rate = 2e-4;
  p.grad_norm = 0.1;
  p.tokens = 4096;
  p.label_tokens = 1024;
  p.seconds = 0.5;
  p.device = "cpu";
  p.memory.current_allocated_bytes = 1LL << 40;
  p.memory.footprint_bytes = 5;
  return p;
}

Progress WithFallbacksAndPadding() {
  Progress p;
  p.padded_tokens = 80;
  p.data_wait_seconds = 0.25;
  p.memory.peak_allocated_bytes = 9;
  p.cpu_fallback_ops = {{"aten::a", 2}, {"aten::b", 1}};
  return p;
}

// Every message in both directions: what is encoded, decoded and encoded again
// is the same line, and the line is as documented.
struct Case {
  const char* name;
  std::variant<FromWorker, ToWorker> message;
  const char* line;
};

class RoundTrip : public testing::TestWithParam<Case> {};

TEST_P(RoundTrip, KeepsEveryField) {
  const Case& c = GetParam();
  std::string line, again;
  if (const auto* from = std::get_if<FromWorker>(&c.message)) {
    line = Encode(*from);
    const auto decoded = DecodeFromWorker(line).value();
    EXPECT_EQ(decoded.index(), from->index());
    again = Encode(decoded);
  } else {
    line = Encode(std::get<ToWorker>(c.message));
    again = Encode(DecodeToWorker(line).value());
  }
  EXPECT_EQ(line, again);
  EXPECT_EQ(nlohmann::json::parse(line), nlohmann::json::parse(c.line));
  EXPECT_EQ(line.find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Messages, RoundTrip,
    testing::Values(
        Case{"Hello", FromWorker(Hello{2, 42, "0.1.0", "2.15.0"}),
             R"({"type":"hello","version":2,"pid":42,"worker_version":"0.1.0",
                 "torch_version":"2.15.0"})"},
        Case{"Progress", FromWorker(SomeProgress()),
             R"({"type":"progress","step":7,"total_steps":100,"epoch":0.25,
                 "loss":0.3333333333333333,"learning_rate":0.0002,
                 "grad_norm":0.1,"tokens":4096,"label_tokens":1024,
                 "seconds":0.5,"device":"cpu","memory":{
                 "current_allocated_bytes":1099511627776,
                 "footprint_bytes":5}})"},
        Case{"ProgressOnTheCpuWithPadding",
             FromWorker(WithFallbacksAndPadding()),
             R"({"type":"progress","step":0,"total_steps":0,"epoch":0.0,
                 "loss":0.0,"learning_rate":0.0,"grad_norm":0.0,"tokens":0,
                 "label_tokens":0,"seconds":0.0,"padded_tokens":80,
                 "data_wait_seconds":0.25,"device":"","memory":{
                 "peak_allocated_bytes":9},
                 "cpu_fallback_ops":{"aten::a":2,"aten::b":1}})"},
        Case{"Held", FromWorker(Held{7}), R"({"type":"held","step":7})"},
        Case{"Resumed", FromWorker(Resumed{7}),
             R"({"type":"resumed","step":7})"},
        Case{"Pause", ToWorker(Pause{}), R"({"type":"pause"})"},
        Case{"Resume", ToWorker(Resume{}), R"({"type":"resume"})"},
        Case{"Evaluated", FromWorker(Evaluated{0, 2.5, 900, 1.5, {}}),
             R"({"type":"evaluated","step":0,"eval_loss":2.5,
                 "label_tokens":900,"seconds":1.5})"},
        Case{"EvaluatedAsTheBest",
             FromWorker(Evaluated{5, 2.5, 9, 1.5, {}, true}),
             R"({"type":"evaluated","step":5,"eval_loss":2.5,
                 "label_tokens":9,"seconds":1.5,"best":true})"},
        Case{"EvaluatedWithMetrics",
             FromWorker(Evaluated{
                 5, 2.5, 9, 1.5, {{"f1", 0.5}, {"accuracy", 1}}}),
             R"({"type":"evaluated","step":5,"eval_loss":2.5,
                 "label_tokens":9,"seconds":1.5,
                 "metrics":{"f1":0.5,"accuracy":1.0}})"},
        Case{"Checkpointed", FromWorker(Checkpointed{5, "/o/5", 9, 0.5, {}}),
             R"({"type":"checkpointed","step":5,"path":"/o/5","bytes":9,
                 "seconds":0.5,"removed_paths":[]})"},
        Case{"Sampled", FromWorker(report::Sampled{4, {"a\nb", ""}, 0.5}),
             R"({"type":"sampled","step":4,"completions":["a\nb",""],
                 "seconds":0.5})"},
        Case{"CheckpointedInsteadOfTwo",
             FromWorker(Checkpointed{5, "/o/5", 9, 0.5, {"/o/1", "/o/3"}}),
             R"({"type":"checkpointed","step":5,"path":"/o/5","bytes":9,
                 "seconds":0.5,"removed_paths":["/o/1","/o/3"]})"},
        Case{"Warning", FromWorker(Warning{"memory grows\n"}),
             R"({"type":"warning","text":"memory grows\n"})"},
        Case{"Heartbeat", FromWorker(Heartbeat{"loading \"m\"\n\u00e9", 0.5}),
             "{\"type\":\"heartbeat\",\"stage\":"
             "\"loading \\\"m\\\"\\n\u00e9\",\"fraction\":0.5}"},
        Case{"HeartbeatWithDevice", FromWorker(Heartbeat{"", 0, "mps"}),
             R"({"type":"heartbeat","stage":"","fraction":0.0,
                 "device":"mps"})"},
        Case{"Rejected", FromWorker(Failed{FailureKind::kRejected, "row 3"}),
             R"({"type":"failed","kind":"rejected","message":"row 3"})"},
        Case{"OutOfMemory", FromWorker(Failed{FailureKind::kOutOfMemory, ""}),
             R"({"type":"failed","kind":"out_of_memory","message":""})"},
        Case{"FailedByErrno",
             FromWorker(Failed{FailureKind::kInternal, "full", 28}),
             R"({"type":"failed","kind":"internal","message":"full",
                 "error":28})"},
        Case{"NonFinite", FromWorker(Failed{FailureKind::kNonFinite, ""}),
             R"({"type":"failed","kind":"non_finite","message":""})"},
        Case{"Internal", FromWorker(Failed{FailureKind::kInternal, ""}),
             R"({"type":"failed","kind":"internal","message":""})"},
        Case{"Done",
             FromWorker(Done{20,
                             "/o/model",
                             OutputKind::kModel,
                             1.5,
                             2.5,
                             1.25,
                             30,
                             {{"accuracy", 0.75}},
                             "{}"}),
             R"({"type":"done","steps":20,"output_path":"/o/model",
                 "output_kind":"model","train_loss":1.5,
                 "eval_loss_before":2.5,"eval_loss_after":1.25,
                 "seconds":30.0,"metrics":{"accuracy":0.75},
                 "confusion_matrix":"{}"})"},
        Case{
            "DoneWithoutLosses",
            FromWorker(Done{
                20, "/o/adapter", OutputKind::kAdapter, {}, {}, {}, 0, {}, ""}),
            R"({"type":"done","steps":20,"output_path":"/o/adapter",
                 "output_kind":"adapter","seconds":0.0,
                 "confusion_matrix":""})"},
        Case{"Stopped", FromWorker(Stopped{StopReason::kCancel, 3}),
             R"({"type":"stopped","reason":"cancel","step":3})"},
        Case{"Start", ToWorker(Start{"01J", "/s/job.json", "/s/out"}),
             R"({"type":"start","job_id":"01J","spec_path":"/s/job.json",
                 "output_dir":"/s/out"})"},
        Case{"Stop", ToWorker(Stop{StopReason::kPreempt}),
             R"({"type":"stop","reason":"preempt"})"}),
    [](const auto& info) { return info.param.name; });

// Names and order of the members, to the byte: a daemon of another build reads
// these lines, and so do people.
TEST(Line, OfAProgressIsAsInTheFirstRelease) {
  Progress p = SomeProgress();
  p.padded_tokens = 5000;
  p.data_wait_seconds = 0.125;
  p.memory = {1, 2, 3, 4, 5};
  p.cpu_fallback_ops = {{"aten::a", 2}};
  EXPECT_EQ(Encode(FromWorker(p)),
            R"({"type":"progress","step":7,"total_steps":100,"epoch":0.25,)"
            R"("loss":0.3333333333333333,"learning_rate":0.0002,)"
            R"("grad_norm":0.1,"tokens":4096,"label_tokens":1024,)"
            R"("seconds":0.5,"padded_tokens":5000,"data_wait_seconds":0.125,)"
            R"("device":"cpu","memory":{"current_allocated_bytes":1,)"
            R"("driver_allocated_bytes":2,"recommended_max_bytes":3,)"
            R"("footprint_bytes":4,"peak_allocated_bytes":5},)"
            R"("cpu_fallback_ops":{"aten::a":2}})");
}

TEST(Decode, WhatAWorkerMayReadIsLeftOutWhereItMayReadAll) {
  Start start{"01J", "/s/job.json", "/s/out", {"/models", "/s"}};
  start.closed_roots = {"/state"};
  const std::string line = Encode(ToWorker(start));
  EXPECT_THAT(line, HasSubstr(R"("read_roots":["/models","/s"])"));
  EXPECT_EQ(std::get<Start>(DecodeToWorker(line).value()), start);
  start.read_roots.clear();
  const std::string without = Encode(ToWorker(start));
  EXPECT_THAT(without, testing::Not(HasSubstr("read_roots")));
  EXPECT_EQ(std::get<Start>(DecodeToWorker(without).value()), start);
  EXPECT_FALSE(DecodeToWorker(R"({"type":"start","job_id":"J",
      "spec_path":"/s","output_dir":"/o","read_roots":"/"})")
                   .ok());
}

TEST(Decode, AStartWithoutAKindTrainsAndAnUnknownKindIsRefused) {
  const std::string start =
      R"({"type":"start","job_id":"J","spec_path":"/s","output_dir":"/o")";
  auto decoded = DecodeToWorker(start + "}").value();
  EXPECT_EQ(std::get<Start>(decoded).kind, JobKind::kTraining);
  EXPECT_TRUE(DecodeToWorker(start + R"(,"kind":"training"})").ok());
  EXPECT_THAT(DecodeToWorker(start + R"(,"kind":"dreaming"})"),
              Says(testing::AllOf(
                  HasSubstr("field 'kind' must be one of training, probe"),
                  HasSubstr("not 'dreaming'"))));
}

TEST(Decode, AStudyHasItsOptions) {
  Start start{"01J", "/s/job.json", "/s/out"};
  EXPECT_THAT(Encode(ToWorker(start)), testing::Not(HasSubstr("study")));
  start.kind = JobKind::kBatchSweep;
  start.study = R"({"thresholds":{"sweep.knee":0.1}})";
  const std::string line = Encode(ToWorker(start));
  EXPECT_THAT(line, HasSubstr(R"("kind":"batch_sweep")"));
  EXPECT_EQ(std::get<Start>(DecodeToWorker(line).value()), start);
}

TEST(Decode, DoublesSurviveToTheBit) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    auto decoded =
        *DecodeFromWorker(Encode(FromWorker(Evaluated{1, value, 1, 1, {}})));
    EXPECT_EQ(std::get<Evaluated>(decoded).eval_loss, value);
  }
}

TEST(Decode, NonFiniteNumbersArriveAsNan) {
  for (double value : {kNan, kInf, -kInf}) {
    Progress progress = SomeProgress();
    progress.loss = value;
    const std::string line = Encode(FromWorker(progress));
    EXPECT_THAT(line, HasSubstr("\"loss\":null"));
    auto decoded = DecodeFromWorker(line).value();
    EXPECT_TRUE(std::isnan(std::get<Progress>(decoded).loss));
    EXPECT_EQ(std::get<Progress>(decoded).step, 7);
  }
  Done unstable;
  unstable.train_loss = kNan;
  auto done = DecodeFromWorker(Encode(FromWorker(unstable))).value();
  ASSERT_TRUE(std::get<Done>(done).train_loss.has_value());
  EXPECT_TRUE(std::isnan(*std::get<Done>(done).train_loss));
  EXPECT_FALSE(std::get<Done>(done).eval_loss_after.has_value());
}

TEST(Decode, MetricsKeepTheirOrder) {
  const Metrics metrics = {{"spearmanr", 0.25}, {"a", kNan}, {"pearson", -1}};
  auto decoded =
      *DecodeFromWorker(Encode(FromWorker(Evaluated{1, 2, 3, 4, metrics})));
  const Metrics& got = std::get<Evaluated>(decoded).metrics;
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[0], metrics[0]);
  EXPECT_EQ(got[1].first, "a");
  EXPECT_TRUE(std::isnan(got[1].second));
  EXPECT_EQ(got[2], metrics[2]);
}

TEST(Decode, InvalidUtf8IsReplacedNotRefused) {
  const auto failed = *DecodeFromWorker(
      Encode(FromWorker(Failed{FailureKind::kInternal, "a\xff\xfe z"})));
  EXPECT_EQ(std::get<Failed>(failed).message, "a\uFFFD\uFFFD z");
}

TEST(Decode, UnknownFieldsAreIgnoredAndDirectionsDoNotMix) {
  const auto stopped = *DecodeFromWorker(
      R"({"type":"stopped","reason":"preempt","step":4,"new":{"a":[1]}})");
  EXPECT_EQ(std::get<Stopped>(stopped).step, 4);
  EXPECT_FALSE(DecodeFromWorker(Encode(ToWorker(Stop{}))).ok());
  EXPECT_FALSE(DecodeToWorker(Encode(FromWorker(Stopped{}))).ok());
}

struct Bad {
  const char* line;
  const char* message;
};
TEST(Decode, ARefusedLineHasItsFieldNamed) {
  for (const auto& [line, message] :
       {Bad{"", "not JSON"},
        Bad{"{", "not JSON"},
        Bad{"hello", "not JSON"},
        Bad{"{} {}", "not JSON"},
        Bad{"[]", "not a JSON object"},
        Bad{"17", "not a JSON object"},
        Bad{"{}", "'type'"},
        Bad{R"({"type":3})", "'type'"},
        Bad{R"({"type":null})", "'type'"},
        Bad{R"({"type":"nonsense"})", "unknown message type 'nonsense'"},
        Bad{R"({"type":"stopped","reason":"preempt"})",
            "stopped: field 'step' is missing"},
        Bad{R"({"type":"stopped","reason":"later","step":1})",
            "stopped: field 'reason' must be one of preempt, cancel, not "
            "'later'"},
        Bad{R"({"type":"stopped","reason":1,"step":1})",
            "stopped: field 'reason' must be a string"},
        Bad{R"({"type":"stopped","reason":"preempt","step":"1"})",
            "stopped: field 'step' must be a 64-bit integer"},
        Bad{R"({"type":"stopped","reason":"preempt","step":1.5})",
            "stopped: field 'step' must be a 64-bit integer"},
        Bad{R"({"type":"stopped","reason":"preempt","step":null})",
            "stopped: field 'step' must be a 64-bit integer"},
        Bad{R"({"type":"stopped","reason":"preempt",
                "step":18446744073709551615})",
            "stopped: field 'step' must be a 64-bit integer"},
        Bad{R"({"type":"stopped","reason":"preempt","step":1e400})",
            "not JSON"},
        Bad{R"({"type":"heartbeat","stage":"x","fraction":NaN})", "not JSON"},
        Bad{R"({"type":"heartbeat","stage":"x","fraction":"0"})",
            "heartbeat: field 'fraction' must be a number or null"},
        Bad{R"({"type":"heartbeat","stage":["x"],"fraction":0})",
            "heartbeat: field 'stage' must be a string"},
        Bad{R"({"type":"hello","version":4294967297,"pid":1,
                "worker_version":"","torch_version":""})",
            "hello: field 'version' must be a 32-bit integer"},
        Bad{R"({"type":"progress","step":1,"total_steps":1,"epoch":0,"loss":0,
                "learning_rate":0,"grad_norm":0,"tokens":0,"label_tokens":0,
                "seconds":0,"device":"cpu","memory":[]})",
            "progress: field 'memory' must be an object"},
        Bad{R"({"type":"progress","step":1,"total_steps":1,"epoch":0,"loss":0,
                "learning_rate":0,"grad_norm":0,"tokens":0,"label_tokens":0,
                "seconds":0,"device":"cpu",
                "memory":{"footprint_bytes":"much"}})",
            "progress.memory: field 'footprint_bytes' must be"},
        Bad{R"({"type":"checkpointed","step":1,"path":"","bytes":1,
                "seconds":1,"removed_paths":"/o/1"})",
            "checkpointed: field 'removed_paths' must be a list of strings"},
        Bad{R"({"type":"checkpointed","step":1,"path":"","bytes":1,
                "seconds":1,"removed_paths":["/o/1",2]})",
            "checkpointed: field 'removed_paths' must be a list of strings"},
        Bad{R"({"type":"warning","text":["x"]})",
            "warning: field 'text' must be a string"},
        Bad{R"({"type":"evaluated","step":1,"eval_loss":1,"label_tokens":1,
                "seconds":1,"metrics":[["f1",1]]})",
            "evaluated: field 'metrics' must be an object"},
        Bad{R"({"type":"evaluated","step":1,"eval_loss":1,"label_tokens":1,
                "seconds":1,"metrics":{"f1":"good"}})",
            "evaluated: field 'f1' must be a number or null"},
        Bad{R"({"type":"done","steps":1,"output_path":"",
                "output_kind":"folder"})",
            "done: field 'output_kind' must be one of adapter, model, study, "
            "not 'folder'"},
        Bad{R"({"type":"done","steps":1,"output_path":"",
                "output_kind":"model","seconds":0,"train_loss":"low"})",
            "done: field 'train_loss' must be a number or null"}}) {
    EXPECT_THAT(DecodeFromWorker(line),
                Fails(absl::StatusCode::kInvalidArgument, message))
        << line;
  }
}

TEST(Garbage, EveryPrefixOfALineIsRefused) {
  const std::string line = Encode(FromWorker(SomeProgress()));
  for (size_t n = 0; n < line.size(); ++n) {
    EXPECT_FALSE(DecodeFromWorker(line.substr(0, n)).ok()) << n;
  }
}

TEST(Garbage, DeepNestingDoesNotOverflowTheStack) {
  EXPECT_FALSE(DecodeFromWorker(std::string(1 << 20, '[')).ok());
  const int depth = 100000;
  EXPECT_FALSE(
      DecodeFromWorker(std::string(depth, '[') + std::string(depth, ']')).ok());
}

}  // namespace
}  // namespace mpsd::wire
