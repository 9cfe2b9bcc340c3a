// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/from_wire.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/json_depth.h"
#include "core/base/limits.h"
#include "core/base/machine_fault.h"
#include "core/base/printable.h"

namespace mpsd::supervisor {
namespace {

// Printable and at most `max_bytes`. What lies far behind is not looked at.
std::string Clean(std::string_view text, size_t max_bytes,
                  base::Breaks breaks = base::Breaks::kEscape) {
  return base::Shortened(
      base::Printable(base::Shortened(text, max_bytes + 8), breaks), max_bytes);
}

jobs::Metrics Clean(const wire::Metrics& metrics) {
  jobs::Metrics clean;
  for (const auto& [name, value] : metrics) {
    if (clean.size() == limits::kMetrics) break;
    clean.emplace_back(Clean(name, limits::kMetricNameBytes), value);
  }
  return clean;
}

// With printable labels; empty where it is left out.
std::string CleanMatrix(const std::string& text) {
  if (text.size() > limits::kMatrixBytes) return "";
  auto matrix = base::ParseTree<nlohmann::ordered_json>(text);
  if (!matrix.is_object() || !matrix.contains("labels")) return "";
  auto& labels = matrix["labels"];
  if (!labels.is_array()) return "";
  for (auto& label : labels) {
    if (!label.is_string()) return "";
    label = base::Printable(label.get<std::string>());
  }
  return matrix.dump(-1, ' ', false,
                     nlohmann::ordered_json::error_handler_t::replace);
}

std::map<std::string, int64_t> Clean(const wire::Counts& counts) {
  std::map<std::string, int64_t> clean;
  for (const auto& [name, count] : counts) {
    if (clean.size() == limits::kFallbackOps) break;
    clean[Clean(name, limits::kMetricNameBytes)] = count;
  }
  return clean;
}

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
  progress.device = Clean(message.device, limits::kVersionBytes);
  progress.memory = {message.memory.current_allocated_bytes,
                     message.memory.driver_allocated_bytes,
                     message.memory.recommended_max_bytes,
                     message.memory.footprint_bytes,
                     message.memory.peak_allocated_bytes};
  progress.cpu_fallback_ops = Clean(message.cpu_fallback_ops);
  return progress;
}

jobs::Evaluated FromWire(const wire::Evaluated& message) {
  return {message.step, message.eval_loss, Clean(message.metrics)};
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
  outcome.metrics = Clean(message.metrics);
  outcome.confusion_matrix = CleanMatrix(message.confusion_matrix);
  return {std::move(outcome)};
}

jobs::FailedReport FromWire(const wire::Failed& message) {
  const bool machine =
      message.error && base::IsMachineFault(static_cast<int>(*message.error));
  return {machine ? jobs::FailedReport::Kind::kMachine : FromWire(message.kind),
          CleanText(message.message)};
}

jobs::WorkerListener::Identity FromWire(const wire::Hello& message) {
  return {message.pid, Clean(message.worker_version, limits::kVersionBytes),
          Clean(message.torch_version, limits::kVersionBytes)};
}

std::string FromWire(const wire::Warning& message) {
  return Clean(message.text, limits::kWarningBytes);
}

std::string StageOf(const wire::Heartbeat& message) {
  return Clean(message.stage, limits::kStageBytes);
}

std::vector<std::string> RemovedPaths(const wire::Checkpointed& message) {
  const std::vector<std::string>& paths = message.removed_paths;
  return {paths.begin(),
          paths.begin() + std::min(paths.size(), limits::kRemovedPaths)};
}

bool LeavesMatrixOut(const wire::Done& message) {
  return !message.confusion_matrix.empty() &&
         CleanMatrix(message.confusion_matrix).empty();
}

std::string CleanText(std::string_view text) {
  return Clean(text, limits::kMessageBytes, base::Breaks::kKeep);
}

}  // namespace mpsd::supervisor
