// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/from_wire.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <iterator>
#include <string>

#include "core/base/limits.h"
#include "core/base/printable.h"

namespace mpsd::supervisor {
namespace {

constexpr char kMatrix[] = R"({"labels":["a"],"matrix":[[3]]})";

TEST(FromWire, Progress) {
  wire::Progress message;
  message.step = 1;
  message.total_steps = 2;
  message.epoch = 0.5;
  message.loss = 3;
  message.learning_rate = 4;
  message.grad_norm = 5;
  message.tokens = 6;
  message.label_tokens = 60;
  message.seconds = 7;
  message.device = "mps";
  message.memory = {8, 9, 10, 11};
  const jobs::Progress progress = FromWire(message);
  EXPECT_EQ(progress.step, 1);
  EXPECT_EQ(progress.total_steps, 2);
  EXPECT_EQ(progress.epoch, 0.5);
  EXPECT_EQ(progress.loss, 3);
  EXPECT_EQ(progress.learning_rate, 4);
  EXPECT_EQ(progress.grad_norm, 5);
  EXPECT_EQ(progress.tokens, 6);
  EXPECT_EQ(progress.step_seconds, 7);
  EXPECT_EQ(progress.device, "mps");
  EXPECT_EQ(progress.memory.current_allocated_bytes, 8);
  EXPECT_EQ(progress.memory.driver_allocated_bytes, 9);
  EXPECT_EQ(progress.memory.recommended_max_bytes, 10);
  EXPECT_EQ(progress.memory.footprint_bytes, 11);
}

TEST(FromWire, SharesOfPaddingAndWaiting) {
  wire::Progress message;
  message.tokens = 60;
  message.seconds = 2;
  EXPECT_FALSE(FromWire(message).padding_ratio.has_value());
  EXPECT_FALSE(FromWire(message).data_wait_ratio.has_value());
  message.padded_tokens = 80;
  message.data_wait_seconds = 0.5;
  EXPECT_EQ(FromWire(message).padding_ratio, 0.25);
  EXPECT_EQ(FromWire(message).data_wait_ratio, 0.25);
}

TEST(FromWire, EvaluatedAndCheckpointed) {
  const jobs::Evaluated evaluated =
      FromWire(wire::Evaluated{3, 0.5, 10, 1, {{"f1", 0.25}, {"a", 1}}});
  EXPECT_EQ(evaluated.step, 3);
  EXPECT_EQ(evaluated.eval_loss, 0.5);
  EXPECT_EQ(evaluated.metrics, (jobs::Metrics{{"f1", 0.25}, {"a", 1}}));
  const jobs::Checkpoint checkpoint =
      FromWire(wire::Checkpointed{4, "/out/step-4", 100, 2.5, {}});
  EXPECT_EQ(checkpoint.step, 4);
  EXPECT_EQ(checkpoint.path, "/out/step-4");
  EXPECT_EQ(checkpoint.size_bytes, 100);
  EXPECT_EQ(checkpoint.seconds, 2.5);
}

TEST(FromWire, Done) {
  const jobs::DoneReport done = FromWire(wire::Done{9,
                                                    "/out/adapter",
                                                    wire::OutputKind::kModel,
                                                    1.0,
                                                    2.0,
                                                    3.0,
                                                    4,
                                                    {{"f1", 1}},
                                                    kMatrix});
  EXPECT_EQ(done.outcome.output_path, "/out/adapter");
  EXPECT_EQ(done.outcome.train_loss, 1);
  EXPECT_EQ(done.outcome.eval_loss_before, 2);
  EXPECT_EQ(done.outcome.eval_loss_after, 3);
  EXPECT_EQ(done.outcome.output_kind, jobs::OutputKind::kModel);
  EXPECT_EQ(done.outcome.metrics, (jobs::Metrics{{"f1", 1}}));
  EXPECT_EQ(done.outcome.confusion_matrix, kMatrix);
  EXPECT_EQ(FromWire(wire::Done()).outcome.output_kind,
            jobs::OutputKind::kAdapter);
}

TEST(FromWire, FailedKeepsKindAndMessage) {
  using Kind = jobs::FailedReport::Kind;
  const std::pair<wire::FailureKind, Kind> kinds[] = {
      {wire::FailureKind::kRejected, Kind::kRejected},
      {wire::FailureKind::kOutOfMemory, Kind::kOutOfMemory},
      {wire::FailureKind::kNonFinite, Kind::kNonFinite},
      {wire::FailureKind::kInternal, Kind::kInternal}};
  for (const auto& [wire_kind, kind] : kinds) {
    const jobs::FailedReport failed = FromWire(wire::Failed{wire_kind, "why"});
    EXPECT_EQ(failed.kind, kind);
    EXPECT_EQ(failed.message, "why");
  }
}

TEST(FromWire, AFaultOfTheMachineIsKnownByItsErrno) {
  using Kind = jobs::FailedReport::Kind;
  wire::Failed failed{wire::FailureKind::kRejected, "/out: read-only"};
  failed.error = EROFS;
  EXPECT_EQ(FromWire(failed).kind, Kind::kMachine);
  EXPECT_EQ(FromWire(failed).message, "/out: read-only");
  failed.error = ENOENT;
  EXPECT_EQ(FromWire(failed).kind, Kind::kRejected);
  failed.error = 0;
  EXPECT_EQ(FromWire(failed).kind, Kind::kRejected);
}

TEST(FromWire, TextsAreCutAtTheirLimits) {
  struct Text {
    size_t limit;
    std::function<std::string(const std::string&)> of;
  };
  const Text texts[] = {
      {limits::kMessageBytes,
       [](const std::string& t) {
         return FromWire(wire::Failed{wire::FailureKind::kInternal, t}).message;
       }},
      {limits::kMessageBytes,
       [](const std::string& t) { return CleanText(t); }},
      {limits::kWarningBytes,
       [](const std::string& t) { return FromWire(wire::Warning{t}); }},
      {limits::kStageBytes,
       [](const std::string& t) { return StageOf(wire::Heartbeat{t, 0}); }},
      {limits::kVersionBytes,
       [](const std::string& t) {
         return FromWire(wire::Hello{1, 2, t, ""}).worker_version;
       }},
      {limits::kVersionBytes,
       [](const std::string& t) {
         return FromWire(wire::Hello{1, 2, "", t}).torch_version;
       }},
      {limits::kVersionBytes,
       [](const std::string& t) {
         wire::Progress message;
         message.device = t;
         return FromWire(message).device;
       }},
      {limits::kMetricNameBytes,
       [](const std::string& t) {
         return FromWire(wire::Evaluated{1, 0, 0, 0, {{t, 1}}})
             .metrics[0]
             .first;
       }},
      {limits::kMetricNameBytes,
       [](const std::string& t) {
         wire::Progress message;
         message.cpu_fallback_ops[t] = 1;
         return FromWire(message).cpu_fallback_ops.begin()->first;
       }},
  };
  for (size_t i = 0; i < std::size(texts); ++i) {
    const auto& [limit, of] = texts[i];
    const std::string whole(limit, 'x');
    EXPECT_EQ(of(whole), whole) << i;
    EXPECT_EQ(of(whole + "x"), std::string(limit - 3, 'x') + "…") << i;
    const std::string hostile = of(std::string(5 << 20, '\x1b'));
    EXPECT_LE(hostile.size(), limit) << i;
    EXPECT_TRUE(base::IsPrintable(hostile)) << i;
    EXPECT_EQ(of("\xe2\x80\xae\xc2\x9b\xff"), "\\u202e\\u009b\\xff")
        << i;
  }
}

TEST(FromWire, OnlyAMessageHasLines) {
  const std::string two = "a\nb";
  EXPECT_EQ(CleanText(two), two);
  EXPECT_EQ(FromWire(wire::Failed{wire::FailureKind::kInternal, two}).message,
            two);
  EXPECT_EQ(FromWire(wire::Warning{two}), "a\\nb");
  EXPECT_EQ(StageOf(wire::Heartbeat{two, 0}), "a\\nb");
}

TEST(FromWire, ListsEndAtTheirLimits) {
  wire::Evaluated evaluated;
  for (size_t i = 0; i < limits::kMetrics; ++i) {
    evaluated.metrics.emplace_back(std::to_string(i), i);
  }
  EXPECT_EQ(FromWire(evaluated).metrics, evaluated.metrics);
  wire::Done done;
  done.metrics = evaluated.metrics;
  done.metrics.emplace_back("one more", 0);
  EXPECT_EQ(FromWire(done).outcome.metrics, evaluated.metrics);
  wire::Progress progress;
  for (size_t i = 0; i <= limits::kFallbackOps; ++i) {
    progress.cpu_fallback_ops[std::to_string(i)] = 1;
  }
  EXPECT_EQ(FromWire(progress).cpu_fallback_ops.size(), limits::kFallbackOps);
  wire::Checkpointed checkpointed;
  checkpointed.removed_paths.assign(limits::kRemovedPaths + 1, "p");
  EXPECT_EQ(RemovedPaths(checkpointed).size(), limits::kRemovedPaths);
}

std::string Matrix(size_t bytes) {
  const std::string end = R"("],"matrix":[[1]]})";
  std::string text = R"({"labels":[")";
  text.append(bytes - text.size() - end.size(), 'x');
  return text + end;
}

TEST(FromWire, AMatrixIsKeptWholeOrNotAtAll) {
  const auto of = [](const std::string& matrix) {
    wire::Done done;
    done.confusion_matrix = matrix;
    EXPECT_EQ(LeavesMatrixOut(done),
              !matrix.empty() && FromWire(done).outcome.confusion_matrix == "");
    return FromWire(done).outcome.confusion_matrix;
  };
  EXPECT_EQ(of(Matrix(limits::kMatrixBytes)), Matrix(limits::kMatrixBytes));
  for (const std::string& bad :
       {Matrix(limits::kMatrixBytes + 1), std::string(100'000, '['),
        std::string("{}"), std::string("no JSON"),
        std::string(R"({"labels":{}})"), std::string(R"({"labels":[[]]})")}) {
    EXPECT_EQ(of(bad), "");
  }
  EXPECT_EQ(of(""), "");
  EXPECT_EQ(of("{\"labels\":[\"\x7f\"],\"matrix\":[[1]]}"),
            R"({"labels":["\\x7f"],"matrix":[[1]]})");
}

}  // namespace
}  // namespace mpsd::supervisor
