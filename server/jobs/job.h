// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_H_
#define MPSD_SERVER_JOBS_JOB_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "core/report/report.h"
#include "server/jobs/job_kind.h"

namespace mpsd::jobs {

// QUEUED -> RUNNING -> SUCCEEDED | FAILED | CANCELLED
// QUEUED -> CANCELLED
// QUEUED -> FAILED       (its row cannot be read)
// RUNNING -> QUEUED      (restart, retry, preemption)
// FAILED | CANCELLED -> QUEUED   (somebody asked for it: JobManager::Retry)
// The numbers are stored in the database and never reused.
enum class State {
  kQueued = 1,
  kRunning = 2,
  kSucceeded = 3,
  kFailed = 4,
  kCancelled = 5,
};
inline constexpr State kAllStates[] = {State::kQueued, State::kRunning,
                                       State::kSucceeded, State::kFailed,
                                       State::kCancelled};

bool CanTransition(State from, State to);
bool IsFinal(State state);           // it takes a person to leave it
std::string_view Name(State state);  // "QUEUED" …

// How an attempt ended: what a worker's end says is decided in one function
// (worker_exit.h), whose fault that is in one table (blame.h).
enum class ExitReason {
  kDone,
  kRejected,     // the user's input
  kOutOfMemory,  // it would end the same way again
  kNonFinite,    // it would end the same way again
  kCrashed,      // signal or unexplained exit
  kHung,         // stopped reporting and was killed
  kCancelled,
  kPreempted,      // stopped at a checkpoint for the daemon's sake
  kProtocolError,  // spoke nonsense on fd 3
  kMachine,        // a full disk, no descriptor left, a volume away …
  kInterrupted,    // daemon or machine went down with it, or it was returned
                   // for memory pressure
};
inline constexpr ExitReason kAllExitReasons[] = {
    ExitReason::kDone,      ExitReason::kRejected,   ExitReason::kOutOfMemory,
    ExitReason::kNonFinite, ExitReason::kCrashed,    ExitReason::kHung,
    ExitReason::kCancelled, ExitReason::kPreempted,  ExitReason::kProtocolError,
    ExitReason::kMachine,   ExitReason::kInterrupted};
std::string_view Name(ExitReason reason);  // "Done", "Rejected" …

// What a worker reports, as core/report has it.
using report::Evaluated;
using report::MemoryCounters;
using report::Metrics;
using report::Outcome;
using report::OutputKind;

// One finished optimizer step: the worker's report, and what follows from it
// and from those before it (StepRate).
struct Progress : report::Progress {
  // Shares of the step's tokens that are padding, and of its time until its
  // data were there.
  std::optional<double> padding_ratio = std::nullopt;
  std::optional<double> data_wait_ratio = std::nullopt;
  double tokens_per_second = 0;
  double eta_seconds = 0;
};

struct Checkpoint {
  int64_t step = 0;
  std::string path;
  int64_t size_bytes = 0;
  double seconds = 0;  // writing it
  absl::Time create_time;
};

struct Job {
  std::string id;  // 26 characters, sorts by creation time
  JobKind kind = JobKind::kTraining;
  std::string name;
  State state = State::kQueued;
  bool cancel_requested = false;
  std::string owner;
  std::map<std::string, std::string> labels;
  int32_t priority = 0;
  absl::Time create_time;
  std::optional<absl::Time> start_time;
  std::optional<absl::Time> end_time;
  std::optional<absl::Time> not_before;
  int32_t attempt = 0;  // workers started
  // Attempts that ended early in a row, without a new checkpoint between, by
  // their own fault and by an interruption (blame.h).
  int32_t failures = 0;
  int32_t interruptions = 0;
  bool behind = false;  // every other job that may run goes first
  // The machine's boot at the last attempt (host::BootId), "" where unknown.
  std::string boot_id;
  // The highest step that a checkpoint of the job was seen to hold, and whether
  // the last attempt wrote one beyond those before it.
  int64_t durable_step = 0;
  bool advanced = false;
  // Estimates of the time of Submit, bytes; 0 where unknown.
  int64_t memory_bytes = 0;
  int64_t checkpoint_bytes = 0;
  std::string message;
  std::optional<ExitReason> exit_reason;
  std::optional<Progress> progress;
  std::optional<double> eval_loss_before;
  std::optional<double> eval_loss_after;
  std::optional<double> train_loss;
  Metrics metrics;  // of the latest evaluation; once it is done, the output's
  std::optional<Evaluated> best_evaluation;  // the last one marked as such
  std::string output_path;
  OutputKind output_kind = OutputKind::kAdapter;
  std::string confusion_matrix;
  std::vector<std::string> warnings;  // RunningJob::Warned
  std::string spec_json;  // fully defaulted, paths as the worker gets them
  std::string idempotency_key;
  std::string request_hash;  // SHA-256 of the canonical request
};

struct StateChanged {
  State state;
  std::string message;
};
// For people.
struct Note {
  std::string text;
  bool is_warning = false;
};
struct Event {
  std::string job_id;
  int64_t sequence = 0;  // within the job, from 1, without gaps
  absl::Time time;
  std::variant<StateChanged, Progress, Evaluated, Checkpoint, Note> body;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_H_
