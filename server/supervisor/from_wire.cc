// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/from_wire.h"

#include <utility>

namespace mpsd::supervisor {
namespace {

jobs::FailedReport::Kind FromWire(wire::FailureKind kind) {
  switch (kind) {
    case wire::FailureKind::kRejected:
      return jobs::FailedReport::Kind::kRejected;
    case wire::FailureKind::kOutOfMemory:
      return jobs::FailedReport::Kind::kOutOfMemory;
    case wire::FailureKind::kNonFinite:
      return jobs::FailedReport::Kind::kNonFinite;
    case wire::FailureKind::kInternal:
      break;
  }
  return jobs::FailedReport::Kind::kInternal;
}

}  // namespace

jobs::Progress FromWire(const wire::Progress& message) {
  jobs::Progress progress;
  progress.step = message.step;
  progress.total_steps = message.total_steps;
  progress.epoch = message.epoch;
  progress.loss = message.loss;
  progress.learning_rate = message.learning_rate;
  progress.grad_norm = message.grad_norm;
  progress.tokens = message.tokens;
  progress.label_tokens = message.label_tokens;
  progress.step_seconds = message.seconds;
  if (message.padded_tokens.value_or(0) > 0) {
    progress.padding_ratio =
        1 - static_cast<double>(message.tokens) /
                static_cast<double>(*message.padded_tokens);
  }
  if (message.data_wait_seconds && message.seconds > 0) {
    progress.data_wait_ratio = *message.data_wait_seconds / message.seconds;
  }
  progress.device = message.device;
  progress.memory = {message.memory.current_allocated_bytes,
                     message.memory.driver_allocated_bytes,
                     message.memory.recommended_max_bytes,
                     message.memory.footprint_bytes,
                     message.memory.peak_allocated_bytes};
  progress.cpu_fallback_ops = message.cpu_fallback_ops;
  return progress;
}

jobs::Evaluated FromWire(const wire::Evaluated& message) {
  return {message.step, message.eval_loss, message.metrics};
}

jobs::Checkpoint FromWire(const wire::Checkpointed& message) {
  jobs::Checkpoint checkpoint;
  checkpoint.step = message.step;
  checkpoint.path = message.path;
  checkpoint.size_bytes = message.bytes;
  checkpoint.seconds = message.seconds;
  return checkpoint;
}

jobs::DoneReport FromWire(const wire::Done& message) {
  jobs::Outcome outcome;
  outcome.output_path = message.output_path;
  outcome.output_kind = message.output_kind == wire::OutputKind::kModel
                            ? jobs::OutputKind::kModel
                            : jobs::OutputKind::kAdapter;
  outcome.train_loss = message.train_loss;
  outcome.eval_loss_before = message.eval_loss_before;
  outcome.eval_loss_after = message.eval_loss_after;
  outcome.metrics = message.metrics;
  outcome.confusion_matrix = message.confusion_matrix;
  return {std::move(outcome)};
}

jobs::FailedReport FromWire(const wire::Failed& message) {
  return {FromWire(message.kind), message.message};
}

}  // namespace mpsd::supervisor
