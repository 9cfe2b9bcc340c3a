// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// A run's reports: the trainer fills these structs, the worker sends them, the
// daemon stores and serves them. Each struct is followed by its only field
// list, `Fields`: every frame (a line between worker and daemon, a line of
// metrics.jsonl, an event in the database, an API message, a Prometheus gauge)
// walks it with a visitor `v(name, member)`. A field added to a struct and its
// list reaches every frame; the contract test `report` names the few that a
// frame omits. Names are never reused, and their order is that of the members
// on the line.

// The stages of a run that mpsd knows by name, to show what a worker spends its
// time on. The worker reports each stage when it begins; any other stage is a
// human-readable text and counts as preparation.

namespace mpsd::report {

// Name and value of each metric, in display order (core/report/metrics.h). In
// JSON, an object whose members keep this order; omitted if empty.
using Metrics = std::vector<std::pair<std::string, double>>;

// Name → occurrences in this job so far, across restarts. Omitted from JSON if
// empty.
using Counts = std::map<std::string, int64_t>;

// The JSON name of an enum value. An array of these is the enum's only list of
// values.
template <typename E>
struct EnumName {
  E value;
  const char* name;
};
template <typename E, size_t N>
constexpr std::array<E, N> ValuesOf(const EnumName<E> (&names)[N]) {
  const auto listed = [&]<size_t... I>(std::index_sequence<I...>) {
    return std::array<E, N>{names[I].value...};
  };
  return listed(std::make_index_sequence<N>());
}
// "unknown" for a value that is not in the list.
template <typename E, size_t N>
constexpr const char* NameIn(const EnumName<E> (&names)[N], E value) {
  for (const EnumName<E>& known : names) {
    if (known.value == value) return known.name;
  }
  return "unknown";
}
// The value with this number, as stored in a database row or a message; nullopt
// if the list has no such number.
template <typename E, size_t N>
constexpr std::optional<E> Numbered(const EnumName<E> (&names)[N],
                                    int64_t number) {
  for (const EnumName<E>& known : names) {
    if (static_cast<int64_t>(known.value) == number) return known.value;
  }
  return std::nullopt;
}

// Device memory, bytes; absent if the device has no such counter.
struct MemoryCounters {
  std::optional<int64_t> current_allocated_bytes;
  std::optional<int64_t> driver_allocated_bytes;
  std::optional<int64_t> recommended_max_bytes;
  std::optional<int64_t> footprint_bytes;  // of the worker process
  // The maximum of allocated_bytes since the worker started.
  std::optional<int64_t> peak_allocated_bytes;
};
template <typename V>
void Fields(V& v, auto& m, const MemoryCounters*) {
  v("current_allocated_bytes", m.current_allocated_bytes);
  v("driver_allocated_bytes", m.driver_allocated_bytes);
  v("recommended_max_bytes", m.recommended_max_bytes);
  v("footprint_bytes", m.footprint_bytes);
  v("peak_allocated_bytes", m.peak_allocated_bytes);
}

// One finished optimizer step.
struct Progress {
  int64_t step = 0;  // finished optimizer steps, from 1
  int64_t total_steps = 0;
  double epoch = 0;          // fraction of passes over the data
  double loss = 0;           // mean over the step's label tokens, nats
  double learning_rate = 0;  // used by this step
  double grad_norm = 0;      // before clipping
  int64_t tokens = 0;        // non-padding, of this step
  int64_t label_tokens = 0;  // in the loss, of this step; rows, if per row
  double seconds = 0;        // wall time of this step
  std::optional<int64_t> padded_tokens;  // padding included, of this step
  // The part of `seconds` spent waiting for the step's batches.
  std::optional<double> data_wait_seconds;
  std::string device;  // "cpu", "cuda", "mps"
  MemoryCounters memory;
  // Operators that MPS lacks and that ran on the CPU, "aten::…".
  Counts cpu_fallback_ops;
  // Share of time, 0 to 1, that the device was busy (with any process) when the
  // step ended; absent if the device does not report it.
  std::optional<double> device_utilization_ratio;
  Metrics metrics = {};  // of the step; empty for tasks without them
};
template <typename V>
void Fields(V& v, auto& m, const Progress*) {
  v("step", m.step);
  v("total_steps", m.total_steps);
  v("epoch", m.epoch);
  v("loss", m.loss);
  v("learning_rate", m.learning_rate);
  v("grad_norm", m.grad_norm);
  v("tokens", m.tokens);
  v("label_tokens", m.label_tokens);
  v("seconds", m.seconds);
  v("padded_tokens", m.padded_tokens);
  v("data_wait_seconds", m.data_wait_seconds);
  v("device", m.device);
  v("memory", m.memory);
  v("cpu_fallback_ops", m.cpu_fallback_ops);
  v("device_utilization_ratio", m.device_utilization_ratio);
  v("metrics", m.metrics);
}

struct Evaluated {
  int64_t step = 0;      // 0: before training
  double eval_loss = 0;  // mean over the eval set: nats per label token, or the
                         // task's loss per row
  int64_t label_tokens = 0;  // rows, if labels are per row
  double seconds = 0;
  Metrics metrics;  // of the task; may be empty
  // Whether this is the best evaluation after a step so far, by
  // training.metric_for_best_model. Only the trainer decides this.
  bool best = false;
};
template <typename V>
void Fields(V& v, auto& m, const Evaluated*) {
  v("step", m.step);
  v("eval_loss", m.eval_loss);
  v("label_tokens", m.label_tokens);
  v("seconds", m.seconds);
  v("metrics", m.metrics);
  v("best", m.best);
}

// What the model answers to the prompts of training.sample_prompts.
struct Sampled {
  // 0: before training. The last one is of the result, which may be the best
  // checkpoint instead of the last step's.
  int64_t step = 0;
  std::vector<std::string> completions;  // one per prompt, in their order
  double seconds = 0;
};
template <typename V>
void Fields(V& v, auto& m, const Sampled*) {
  v("step", m.step);
  v("completions", m.completions);
  v("seconds", m.seconds);
}

struct Checkpointed {
  int64_t step = 0;
  std::string path;  // the checkpoint folder, absolute
  int64_t bytes = 0;
  double seconds = 0;
  // Checkpoint folders removed since the last report: dropped for
  // save_total_limit, or set aside as damaged.
  std::vector<std::string> removed_paths = {};
};
template <typename V>
void Fields(V& v, auto& m, const Checkpointed*) {
  v("step", m.step);
  v("path", m.path);
  v("bytes", m.bytes);
  v("seconds", m.seconds);
  v("removed_paths", m.removed_paths);
}

// Stored in the database; numbers are never reused.
enum class OutputKind {
  kAdapter = 1,  // a PEFT folder
  kModel = 2,    // a folder that Transformers loads
  kStudy = 3,    // a folder with a study's result.json
};
inline constexpr EnumName<OutputKind> kOutputKinds[] = {
    {OutputKind::kAdapter, "adapter"},
    {OutputKind::kModel, "model"},
    {OutputKind::kStudy, "study"}};
constexpr const auto& NamesOf(OutputKind) { return kOutputKinds; }

// The result of a run that finished.
struct Outcome {
  int64_t steps = 0;
  std::string output_path;  // the final folder, absolute
  OutputKind output_kind = OutputKind::kAdapter;
  std::optional<double> train_loss;        // mean over the run's steps
  std::optional<double> eval_loss_before;  // absent without an eval set
  std::optional<double> eval_loss_after;
  double seconds = 0;
  // Metrics of the model at output_path on the eval set; may be empty.
  Metrics metrics;
  // JSON of the eval set's confusion matrix, {"labels": [name…], "matrix":
  // [[count…]…]}: a row per true label and a column per predicted label; empty
  // without a matrix.
  std::string confusion_matrix;
};
template <typename V>
void Fields(V& v, auto& m, const Outcome*) {
  v("steps", m.steps);
  v("output_path", m.output_path);
  v("output_kind", m.output_kind);
  v("train_loss", m.train_loss);
  v("eval_loss_before", m.eval_loss_before);
  v("eval_loss_after", m.eval_loss_after);
  v("seconds", m.seconds);
  v("metrics", m.metrics);
  v("confusion_matrix", m.confusion_matrix);
}

enum class FailureKind {
  kRejected,  // invalid user input; never retried
  kOutOfMemory,
  kNonFinite,  // loss or gradients
  kInternal,
};
inline constexpr EnumName<FailureKind> kFailureKinds[] = {
    {FailureKind::kRejected, "rejected"},
    {FailureKind::kOutOfMemory, "out_of_memory"},
    {FailureKind::kNonFinite, "non_finite"},
    {FailureKind::kInternal, "internal"}};
constexpr const auto& NamesOf(FailureKind) { return kFailureKinds; }

struct Failure {
  FailureKind kind = FailureKind::kInternal;
  std::string message;
  // The errno that caused the failure (core/base/file.h says which are
  // the machine's fault); absent if none did.
  std::optional<int64_t> error = std::nullopt;
};
template <typename V>
void Fields(V& v, auto& m, const Failure*) {
  v("kind", m.kind);
  v("message", m.message);
  v("error", m.error);
}

enum class StopReason {
  kPreempt,  // save a checkpoint, report Stopped, exit 0
  kCancel,   // report Stopped and exit 0; no checkpoint needed
};
inline constexpr EnumName<StopReason> kStopReasons[] = {
    {StopReason::kPreempt, "preempt"}, {StopReason::kCancel, "cancel"}};
constexpr const auto& NamesOf(StopReason) { return kStopReasons; }

// A run that ended on request.
struct Stopped {
  StopReason reason = StopReason::kPreempt;
  int64_t step = 0;  // of the last checkpoint, 0 without one
};
template <typename V>
void Fields(V& v, auto& m, const Stopped*) {
  v("reason", m.reason);
  v("step", m.step);
}

inline constexpr char kStageTraining[] = "training";
inline constexpr char kStageEvaluating[] = "evaluating";
inline constexpr char kStagePredicting[] = "predicting";
inline constexpr char kStageSaving[] = "saving";  // a checkpoint or the result

}  // namespace mpsd::report
