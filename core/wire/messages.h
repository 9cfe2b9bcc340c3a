// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_WIRE_MESSAGES_H_
#define MPSD_CORE_WIRE_MESSAGES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

// What mpsd and mpsd-worker say to each other: one JSON object a line over the
// stream socket that the worker finds as fd 3. Both link this codec.
//
//   worker → daemon: Hello, then Progress / Evaluated / Checkpointed /
//                    Heartbeat / Warning / Held / Resumed in any number, then
//                    one of Done / Failed / Stopped, then exit.
//   daemon → worker: Start, once, after Hello; then Pause and Resume in any
//                    number; Stop, at most once.
//
// Either side may find the stream closed. A worker that reads end of stream
// behaves as if told Stop{kPreempt}. Field names are never reused.
namespace mpsd::wire {

// Raised on every change that an older peer would misread.
inline constexpr int kProtocolVersion = 4;
inline constexpr int kWorkerFd = 3;

struct Hello {
  int version = kProtocolVersion;
  int64_t pid = 0;
  std::string worker_version;  // of mpsd-worker
  std::string torch_version;
};

// What the worker does. The daemon's list: server/jobs/job_kind.h.
enum class JobKind {
  kTraining,
};

struct Start {
  std::string job_id;
  std::string spec_path;   // job.json, local paths
  std::string output_dir;  // the worker's --out
  // Folders beneath which the run may read files, beside the worker's own
  // cache; left out on the wire where it may read what it likes.
  std::vector<std::string> read_roots = {};
  JobKind kind = JobKind::kTraining;  // left out on the wire for training
  bool operator==(const Start&) const = default;
};

enum class StopReason {
  kPreempt,  // checkpoint, send Stopped, exit 0
  kCancel,   // send Stopped and exit 0, a checkpoint is not needed
};
struct Stop {
  StopReason reason = StopReason::kPreempt;
};

// Hold between two micro-batches (of an evaluation: two batches), with
// everything in memory, until Resume or Stop. The worker answers Held when it
// holds, sends Heartbeats without a stage meanwhile, and Resumed when it goes
// on. A Resume that comes before that takes the Pause back: then there is no
// answer.
struct Pause {};
struct Resume {};

// Device memory, bytes; absent where the device has no such counter.
struct MemoryCounters {
  std::optional<int64_t> current_allocated_bytes;
  std::optional<int64_t> driver_allocated_bytes;
  std::optional<int64_t> recommended_max_bytes;
  std::optional<int64_t> footprint_bytes;  // of the worker process
  // Of live tensors, since the worker started.
  std::optional<int64_t> peak_allocated_bytes;
};

// Name → how often, of this job so far, restarts included.
using Counts = std::map<std::string, int64_t>;

// After every optimizer step.
struct Progress {
  int64_t step = 0;  // finished optimizer steps, from 1
  int64_t total_steps = 0;
  double epoch = 0;  // fraction of passes over the data
  double loss = 0;   // mean over the step's label tokens, nats
  double learning_rate = 0;
  double grad_norm = 0;                  // before clipping
  int64_t tokens = 0;                    // non-padding, of this step
  int64_t label_tokens = 0;              // that count in the loss, of this step
  double seconds = 0;                    // wall time of this step
  std::optional<int64_t> padded_tokens;  // padding included, of this step
  std::optional<double> data_wait_seconds;  // of `seconds`
  std::string device;                       // "cpu", "cuda", "mps"
  MemoryCounters memory;
  // Operators that MPS lacks and that ran on the CPU, "aten::…"; left out on
  // the wire where there are none.
  Counts cpu_fallback_ops;
};

// The answers to Pause and Resume; `step`: the last one finished.
struct Held {
  int64_t step = 0;
};
struct Resumed {
  int64_t step = 0;
};

// Name and value, in the order to show them: core/metrics/metrics.h. On the
// wire a JSON object whose members keep that order.
using Metrics = std::vector<std::pair<std::string, double>>;

struct Evaluated {
  int64_t step = 0;      // 0: before training
  double eval_loss = 0;  // mean over the eval set: nats a label token, or what
                         // the task's loss is for a row
  int64_t label_tokens = 0;  // rows, where the labels are of rows
  double seconds = 0;
  Metrics metrics;  // of the task; may be empty
};

struct Checkpointed {
  int64_t step = 0;
  std::string path;  // the checkpoint folder, absolute
  int64_t bytes = 0;
  double seconds = 0;
  std::vector<std::string> removed_paths;  // those that are gone since
};

// Proof of life while no step ends: loading, tokenizing, evaluating; a step of
// many micro-batches. A worker that gets no work done sends none.
struct Heartbeat {
  std::string stage;    // "loading model", "evaluating" …; empty: as before
  double fraction = 0;  // of the stage, 0..1; 0 where unknown
};

// Something is amiss and the run goes on. For people; each text once.
struct Warning {
  std::string text;
};

enum class FailureKind {
  kRejected,  // the user's input; never retried
  kOutOfMemory,
  kNonFinite,  // loss or gradients
  kInternal,
};
struct Failed {
  FailureKind kind = FailureKind::kInternal;
  std::string message;
  // The errno that it came of (core/base/machine_fault.h says which are the
  // machine's fault); absent where it came of none.
  std::optional<int64_t> error = std::nullopt;
};

enum class OutputKind {
  kAdapter,  // a PEFT folder
  kModel,    // a folder that Transformers loads
};

struct Done {
  int64_t steps = 0;
  std::string output_path;  // the final folder, absolute
  OutputKind output_kind = OutputKind::kAdapter;
  std::optional<double> train_loss;        // mean over the run's steps
  std::optional<double> eval_loss_before;  // absent without an eval set
  std::optional<double> eval_loss_after;
  double seconds = 0;
  Metrics metrics;  // of what output_path holds, on the eval set; may be empty
  // JSON of the eval set's confusion matrix, {"labels": [name…], "matrix":
  // [[count…]…]} with a row a true label and a column a predicted one; empty
  // where there is none.
  std::string confusion_matrix;
};

// The answer to Stop or end of stream.
struct Stopped {
  StopReason reason = StopReason::kPreempt;
  int64_t step = 0;  // of the last checkpoint, 0 for none
};

using FromWorker =
    std::variant<Hello, Progress, Evaluated, Checkpointed, Heartbeat, Warning,
                 Held, Resumed, Failed, Done, Stopped>;
using ToWorker = std::variant<Start, Pause, Resume, Stop>;

// One line of JSON without the newline. A double that is not finite becomes
// null and arrives as NaN; a byte that is no UTF-8 becomes U+FFFD.
std::string Encode(const FromWorker& message);
std::string Encode(const ToWorker& message);

// InvalidArgument for what is no such message: not JSON, unknown type, a
// missing or ill-typed field. Unknown fields are ignored (a newer peer).
absl::StatusOr<FromWorker> DecodeFromWorker(std::string_view line);
absl::StatusOr<ToWorker> DecodeToWorker(std::string_view line);

}  // namespace mpsd::wire

#endif  // MPSD_CORE_WIRE_MESSAGES_H_
