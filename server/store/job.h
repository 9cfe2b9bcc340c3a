// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/report/report.h"

// The field lists of an event, by the names that the database, the API and the
// metrics use. A worker's report is walked by its own list
// (core/report/report.h); this file only adds what the daemon renames, adds or
// omits.

namespace mpsd::jobs {

// What a job does with the device. Every kind is queued, started, watched,
// paused, retried and deleted alike. To add a kind, add one line or one
// case to each of these:
//
//   JobKind of proto/mpsd/v1/job.proto, with the number it has here;
//   kJobKinds below: rows hold the number, no migration is needed;
//   CheckSubmission (submission.cc), which reports what is wrong before it
//   runs; JobKind of core/wire/messages.h and WireKind of server/supervisor;
//   RunKind (core/worker/session.cc), which runs it.
//
// The numbers are stored in the database, sent to clients and never reused: 7
// was used.
enum class JobKind {
  kTraining = 1,
  // The studies, which measure or generate.
  kProbe = 2,
  kBatchSweep = 3,
  kDeviceComparison = 4,
  kProfile = 5,
  kSmoke = 6,
  kGenerate = 8,
};
inline constexpr report::EnumName<JobKind> kJobKinds[] = {
    {JobKind::kTraining, "training"},
    {JobKind::kProbe, "probe"},
    {JobKind::kBatchSweep, "batch_sweep"},
    {JobKind::kDeviceComparison, "device_comparison"},
    {JobKind::kProfile, "profile"},
    {JobKind::kSmoke, "smoke"},
    {JobKind::kGenerate, "generate"}};
inline constexpr auto kAllJobKinds = report::ValuesOf(kJobKinds);
constexpr std::string_view Name(JobKind kind) {
  return report::NameIn(kJobKinds, kind);
}
constexpr bool IsStudy(JobKind kind) { return kind != JobKind::kTraining; }

// QUEUED -> RUNNING -> SUCCEEDED | FAILED | CANCELLED
// QUEUED -> CANCELLED
// QUEUED -> FAILED       (its row cannot be read, its time is used up, or its
//                        data are refused)
// RUNNING -> QUEUED      (restart, retry, preemption)
// SUCCEEDED | FAILED | CANCELLED -> QUEUED   (Scheduler::Retry)
// The numbers are stored in the database and never reused.
enum class State {
  kQueued = 1,
  kRunning = 2,
  kSucceeded = 3,
  kFailed = 4,
  kCancelled = 5,
};
inline constexpr report::EnumName<State> kStates[] = {
    {State::kQueued, "QUEUED"},
    {State::kRunning, "RUNNING"},
    {State::kSucceeded, "SUCCEEDED"},
    {State::kFailed, "FAILED"},
    {State::kCancelled, "CANCELLED"}};
inline constexpr auto kAllStates = report::ValuesOf(kStates);
constexpr std::string_view Name(State state) {
  return report::NameIn(kStates, state);
}

bool CanTransition(State from, State to);
bool IsFinal(State state);  // only a user's request leaves it

// How an attempt ended. One function (attempt_end.h) decides the reason, and
// one table (attempt_end.h) assigns the fault.
enum class ExitReason {
  kDone,
  kRejected,     // the user's input is wrong
  kOutOfMemory,  // another attempt would end the same way
  kNonFinite,    // another attempt would end the same way
  kCrashed,      // signal or unexplained exit
  kHung,         // sent no message for too long and was killed
  kCancelled,
  kPreempted,      // stopped at a checkpoint at the daemon's request
  kProtocolError,  // sent a line on fd 3 that breaks the protocol
  kMachine,        // a full disk, no descriptor left, a volume away …
  kInterrupted,    // daemon or machine went down with it, or it was returned
                   // for memory pressure
  kTimeLimit,      // held the device for as long as a job may
};
inline constexpr report::EnumName<ExitReason> kExitReasons[] = {
    {ExitReason::kDone, "Done"},
    {ExitReason::kRejected, "Rejected"},
    {ExitReason::kOutOfMemory, "OutOfMemory"},
    {ExitReason::kNonFinite, "NonFinite"},
    {ExitReason::kCrashed, "Crashed"},
    {ExitReason::kHung, "Hung"},
    {ExitReason::kCancelled, "Cancelled"},
    {ExitReason::kPreempted, "Preempted"},
    {ExitReason::kProtocolError, "ProtocolError"},
    {ExitReason::kMachine, "Machine"},
    {ExitReason::kInterrupted, "Interrupted"},
    {ExitReason::kTimeLimit, "TimeLimit"}};
inline constexpr auto kAllExitReasons = report::ValuesOf(kExitReasons);
constexpr std::string_view Name(ExitReason reason) {
  return report::NameIn(kExitReasons, reason);
}

// A worker's reports, as core/report defines them.
using report::Evaluated;
using report::MemoryCounters;
using report::Metrics;
using report::Outcome;
using report::OutputKind;

// One finished optimizer step: the worker's report, and the values that the
// daemon computes from this and earlier reports (StepRate).
struct Progress : report::Progress {
  // Shares: padding among the step's tokens, and waiting for data in the step's
  // time.
  std::optional<double> padding_ratio = std::nullopt;
  std::optional<double> data_wait_ratio = std::nullopt;
  double tokens_per_second = 0;
  double eta_seconds = 0;
};

// The worker's report of a checkpoint, and its time. A checkpoint of the store
// has no removed_paths: they are removed rows.
struct Checkpoint : report::Checkpointed {
  absl::Time create_time = {};
};

struct Job {
  std::string id;  // 26 characters; ids sort by creation time
  JobKind kind = JobKind::kTraining;
  std::string name;
  State state = State::kQueued;
  bool cancel_requested = false;
  std::string owner;
  std::map<std::string, std::string> labels;
  std::vector<std::string> tags;  // sorted; jobs::PastJobs changes them
  int32_t priority = 0;
  absl::Time create_time;
  std::optional<absl::Time> start_time;
  std::optional<absl::Time> end_time;
  std::optional<absl::Time> not_before;
  int32_t attempt = 0;  // number of workers started
  // The time that the job's attempts held the device, without pauses.
  absl::Duration device_time;
  // Attempts in a row that ended early without writing a new checkpoint: those
  // that failed by the job's fault, and those that were interrupted
  // (attempt_end.h).
  int32_t failures = 0;
  int32_t interruptions = 0;
  bool runs_last = false;  // every other job that may run starts first
  // Does not start until it is released; hold_reason is human-readable.
  bool held = false;
  std::string hold_reason;
  // Where the job was moved: among the jobs of its owner, or of all owners if
  // `among_all`, that are equal in priority, the lower number runs first. 0:
  // not moved.
  int64_t place = 0;
  bool among_all = false;
  // The id whose turn the job has (job_queue.h); empty: its own.
  std::string ticket;
  // The next attempt begins from scratch: before its start the job's
  // checkpoints and results are removed.
  bool fresh = false;
  // Ids of the jobs that must succeed before this one starts.
  std::vector<std::string> after;
  // Ids of the jobs in whose folders the spec's paths lie, or whose results it
  // names, as Submit resolved them. Stored by Insert; read by Get alone.
  std::set<std::string> uses;
  // What the spec's paths had at Submit (start_checks.h); "" for older jobs.
  std::string input_stamps;
  // Kept from Delete and retention. With stored_bytes, those of the job's
  // folder as last measured, the only columns that Update does not change.
  bool pinned = false;
  int64_t stored_bytes = 0;
  std::string model;       // the spec's, as it was submitted
  std::string study_json;  // a study's options (wire::Start); empty: training
  // The machine's boot id at the last attempt (host::BootId), "" if unknown.
  std::string boot_id;
  // The highest step of any checkpoint of the job, and whether the last attempt
  // wrote a checkpoint beyond the earlier ones.
  int64_t durable_step = 0;
  bool advanced = false;
  // Estimates made at Submit, in bytes; 0 if unknown.
  int64_t memory_bytes = 0;
  int64_t checkpoint_bytes = 0;
  std::string message;
  std::optional<ExitReason> exit_reason;
  std::optional<Progress> progress;
  std::optional<double> eval_loss_before;
  std::optional<double> eval_loss_after;
  std::optional<double> train_loss;
  // The latest evaluation's metrics; once the job has SUCCEEDED, those of its
  // output.
  Metrics metrics;
  std::optional<Evaluated> best_evaluation;  // the last one marked as best
  std::string output_path;
  OutputKind output_kind = OutputKind::kAdapter;
  std::string confusion_matrix;
  std::vector<std::string> warnings;  // kept by RunningJob::Warned
  std::string spec_json;  // with every default; paths as the worker gets them
  std::string idempotency_key;
  std::string request_hash;  // SHA-256 of the canonical request
};

struct StateChanged {
  State state = State::kQueued;
  std::string message;
};
// A human-readable text.
struct Note {
  std::string text;
  bool is_warning = false;
};
struct Event {
  std::string job_id;
  int64_t sequence = 0;  // counts the job's events from 1 without gaps
  absl::Time time;
  std::variant<StateChanged, Progress, Evaluated, Checkpoint, Note,
               report::Sampled>
      body;
};

template <typename V>
void EventFields(V& v, auto& e, const StateChanged*) {
  v("state", e.state);
  v("message", e.message);
}

// The daemon replaces two of the worker's counts by shares, which users
// compare, and appends the rates of the attempt.
template <typename V>
void EventFields(V& v, auto& e, const Progress*) {
  const auto visit = [&](const char* name, auto& value) {
    const std::string_view field = name;
    if (field == "seconds") return v("step_seconds", value);
    if (field == "padded_tokens") return v("padding_ratio", e.padding_ratio);
    if (field == "data_wait_seconds") {
      v("data_wait_ratio", e.data_wait_ratio);
      v("tokens_per_second", e.tokens_per_second);
      return v("eta_seconds", e.eta_seconds);
    }
    v(name, value);
  };
  Fields(visit, e, static_cast<const report::Progress*>(nullptr));
}

// Omits the fields that only the run's own eval.jsonl keeps: the number of
// label tokens, the seconds that the evaluation took, and whether it was the
// best so far. The job's row has the best evaluation.
template <typename V>
void EventFields(V& v, auto& e, const Evaluated*) {
  const auto visit = [&](const char* name, auto& value) {
    const std::string_view field = name;
    if (field != "label_tokens" && field != "seconds" && field != "best") {
      v(name, value);
    }
  };
  Fields(visit, e, static_cast<const report::Evaluated*>(nullptr));
}

template <typename V>
void EventFields(V& v, auto& e, const report::Sampled*) {
  v("step", e.step);
  v("completions", e.completions);
}

// Omits the removed paths: each removes the row of another checkpoint.
template <typename V>
void EventFields(V& v, auto& e, const Checkpoint*) {
  const auto visit = [&](const char* name, auto& value) {
    const std::string_view field = name;
    if (field == "removed_paths") return;
    v(field == "bytes" ? "size_bytes" : name, value);
  };
  Fields(visit, e, static_cast<const report::Checkpointed*>(nullptr));
  v("create_time_us", e.create_time);
}

template <typename V>
void EventFields(V& v, auto& e, const Note*) {
  v("text", e.text);
  v("is_warning", e.is_warning);
}

// Makes ULIDs (github.com/ulid/spec): 48 bits of milliseconds and 80 random
// bits as 26 characters of Crockford's base 32. Each id is greater than the id
// before, also within one millisecond and when the clock steps back.
// Thread-safe.
class JobIdGenerator {
 public:
  using Random = std::function<uint64_t()>;  // returns 64 uniform bits

  JobIdGenerator(const base::Clock& clock, Random random);
  std::string Next();

  // Draws from std::random_device.
  static Random SystemRandom();

 private:
  const base::Clock& clock_;
  absl::Mutex mutex_;
  const Random random_;
  uint64_t millis_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t high_ ABSL_GUARDED_BY(mutex_) = 0;  // 40 random bits
  uint64_t low_ ABSL_GUARDED_BY(mutex_) = 0;   // 40 random bits
};

// Whether `text` is 26 characters of the alphabet, hence safe as a file name.
bool IsJobId(std::string_view text);

}  // namespace mpsd::jobs
