// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "core/report/report.h"

// The protocol of mpsd and mpsd-worker: one JSON object a line over the stream
// socket that the worker inherits as fd 3. Both link this codec.
//
//   worker → daemon: Hello, then Progress / Evaluated / Sampled /
//                    Checkpointed / Heartbeat / Warning / Held / Resumed in
//                    any number, then one of Done / Failed / Stopped, then
//                    exit.
//   daemon → worker: Start, once, after Hello; then Pause and Resume in any
//                    number; Stop, at most once.
//
// Either side may find the stream closed. A worker that reads end of stream
// behaves as if it had received Stop{kPreempt}. Field names are never reused.
namespace mpsd::wire {

// Incremented on every change that an older peer would misread.
inline constexpr int kProtocolVersion = 4;
inline constexpr int kWorkerFd = 3;

// The reports of a run are core/report's structs: a Progress after each
// optimizer step.
using report::Checkpointed;
using report::Counts;
using report::Evaluated;
using report::FailureKind;
using report::MemoryCounters;
using report::Metrics;
using report::OutputKind;
using report::Progress;
using report::Sampled;
using report::Stopped;  // the answer to Stop or end of stream
using report::StopReason;
using Done = report::Outcome;
using Failed = report::Failure;

struct Hello {
  int version = kProtocolVersion;
  int64_t pid = 0;
  std::string worker_version;  // mpsd-worker's version
  std::string torch_version;
};

// The kind of work. The daemon's list of kinds is in server/store/job.h.
enum class JobKind {
  kTraining,
  kProbe,
  kBatchSweep,
  kDeviceComparison,
  kProfile,
  kSmoke,
  kGenerate,
};

struct Start {
  std::string job_id;
  std::string spec_path;   // job.json, local paths
  std::string output_dir;  // the worker's --out
  // Folders below which the run may read files, in addition to the worker's own
  // cache; omitted on the wire if the run may read any file.
  std::vector<std::string> read_roots = {};
  JobKind kind = JobKind::kTraining;  // omitted on the wire for training
  // A study's options: JSON of the message <Kind>Options of proto/mpsd/v1, with
  // the .proto's field names. Empty for training.
  std::string study = {};
  // Folders in which the run may read nothing but read_roots that lie in them.
  std::vector<std::string> closed_roots = {};
  bool operator==(const Start&) const = default;
};

struct Stop {
  StopReason reason = StopReason::kPreempt;
};

// The worker halts between two micro-batches (during an evaluation: two
// batches), with everything in memory, until Resume or Stop. It answers Held
// once halted, sends Heartbeats without a stage while it waits, and answers
// Resumed when it resumes. A Resume that arrives before the worker has halted
// cancels the Pause: the worker then answers neither.
struct Pause {};
struct Resume {};

// The answers to Pause and Resume; `step` is the last finished step.
struct Held {
  int64_t step = 0;
};
struct Resumed {
  int64_t step = 0;
};

// Sign of life while no step ends: during loading, tokenizing, an evaluation or
// a step of many micro-batches. A worker that makes no progress sends none.
struct Heartbeat {
  std::string stage;    // "loading model", "evaluating" …; empty: unchanged
  double fraction = 0;  // completed part of the stage, 0..1; 0 if unknown
  // "cpu", "cuda", "mps", sent once, when the worker has opened its device;
  // empty (omitted on the wire): unchanged.
  std::string device = {};
};

// A problem that does not stop the run. The text is human-readable; each text
// is sent only once.
struct Warning {
  std::string text;
};

using FromWorker =
    std::variant<Hello, Progress, Evaluated, Sampled, Checkpointed, Heartbeat,
                 Warning, Held, Resumed, Failed, Done, Stopped>;
using ToWorker = std::variant<Start, Pause, Resume, Stop>;

// One line of JSON without the newline. A non-finite double becomes null and is
// decoded as NaN; invalid UTF-8 bytes become U+FFFD.
std::string Encode(const FromWorker& message);
std::string Encode(const ToWorker& message);

// InvalidArgument for a line that is not JSON, an unknown type, a missing or
// ill-typed field. Unknown fields are ignored, because a newer peer may send
// them.
absl::StatusOr<FromWorker> DecodeFromWorker(std::string_view line);
absl::StatusOr<ToWorker> DecodeToWorker(std::string_view line);

}  // namespace mpsd::wire
