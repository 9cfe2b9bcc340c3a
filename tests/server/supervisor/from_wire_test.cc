// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/from_wire.h"

#include <gtest/gtest.h>

namespace mpsd::supervisor {
namespace {

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
                                                    "{}"});
  EXPECT_EQ(done.outcome.output_path, "/out/adapter");
  EXPECT_EQ(done.outcome.train_loss, 1);
  EXPECT_EQ(done.outcome.eval_loss_before, 2);
  EXPECT_EQ(done.outcome.eval_loss_after, 3);
  EXPECT_EQ(done.outcome.output_kind, jobs::OutputKind::kModel);
  EXPECT_EQ(done.outcome.metrics, (jobs::Metrics{{"f1", 1}}));
  EXPECT_EQ(done.outcome.confusion_matrix, "{}");
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

}  // namespace
}  // namespace mpsd::supervisor
