// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/report/report.h"
#include "server/jobs/job_files.h"
#include "server/store/job.h"

// A worker as the scheduler sees it: how it is launched and what it reports,
// how long it may be silent, and what its end means for the job and whose fault
// it was.
namespace mpsd::jobs {

// Gets the decoded reports of a worker. The launcher's thread calls the methods
// in order; OnExit comes last, exactly once.
class WorkerListener {
 public:
  virtual ~WorkerListener() = default;
  struct Identity {
    int64_t pid = 0;
    std::string worker_version;
    std::string torch_version;
  };
  // How the worker ended: DecideExit.
  struct Result {
    ExitReason reason = ExitReason::kCrashed;
    std::string message;
    Outcome outcome;  // only with Done
  };
  virtual void OnHello(const Identity& identity) = 0;
  // The worker has opened `device`: "mps", "cuda" or "cpu".
  virtual void OnDevice(const std::string& device) = 0;
  virtual void OnProgress(const Progress& progress) = 0;
  virtual void OnEvaluated(const Evaluated& evaluated) = 0;
  virtual void OnSampled(const report::Sampled& sampled) = 0;
  virtual void OnCheckpoint(const report::Checkpointed& checkpoint) = 0;
  virtual void OnHeartbeat(const std::string& stage, double fraction) = 0;
  // A problem with which the run continues; `text` is UTF-8.
  virtual void OnWarning(const std::string& text) = 0;
  // The worker holds, as Pause requested; OnResumed reports that it continues.
  virtual void OnHeld() = 0;
  virtual void OnResumed() = 0;
  virtual void OnExit(const Result& result) = 0;
};

// One live worker process. Thread-safe. Destroying it kills the process and
// waits for the end; OnExit has been called by then.
class Worker {
 public:
  virtual ~Worker() = default;
  // Requests a checkpoint and an exit; kills the worker after `grace` of time
  // in which the machine is awake.
  virtual void Preempt(absl::Duration grace) = 0;
  // Requests a checkpoint and an exit, after which the job is over; kills the
  // worker after `grace`, which a second call may shorten. A grace of zero
  // saves no checkpoint.
  virtual void Cancel(absl::Duration grace) = 0;
  // Requests a hold between two micro-batches with everything in memory.
  // Preempt and Cancel end the hold; Pause and Resume do nothing after either.
  virtual void Pause() = 0;
  virtual void Resume() = 0;
};

struct LaunchRequest {
  std::string job_id;
  JobKind kind = JobKind::kTraining;
  std::string spec_path;
  std::string output_dir;
  std::string log_path;         // gets the worker's stdout and stderr
  absl::Duration hang_timeout;  // a worker silent for this long is killed: Hung
  absl::Duration slowest_step;  // in earlier attempts, see HangLimit
  bool allow_cpu_fallback = false;  // as job.json says
  // What the worker reads in STATE (ReadInState) besides its job's folder.
  std::vector<std::string> results_read = {};
  std::string study = {};  // see wire::Start
  // The model's folder, and what job.json calls the model.
  std::string model_folder = {}, model_name = {};
};

// Starts workers. Implemented by server/supervisor over posix_spawn and by a
// fake in the tests.
class WorkerLauncher {
 public:
  virtual ~WorkerLauncher() = default;
  // OK if Launch may be called. Unavailable, with the reason, while a worker of
  // an earlier daemon holds the device or the self-test runs;
  // FailedPrecondition after a failed self-test.
  virtual absl::Status Ready() { return absl::OkStatus(); }
  // `listener` must outlive the worker. On an error no process runs and the
  // listener is not called.
  virtual absl::StatusOr<std::unique_ptr<Worker>> Launch(
      const LaunchRequest& request, WorkerListener& listener) = 0;
};

// How long the daemon waits for a silent worker: the configured time, or three
// times the job's slowest step or the longest silence that the worker ended by
// itself, whichever is longest. A slow machine that is known to take this long
// does not hang. Times come from a clock that stops while the machine sleeps,
// as the worker does (base::AwakeTime). Not thread-safe.
class HangLimit {
 public:
  static constexpr int kFactor = 3;

  // The longest step of an earlier attempt that is accepted: the attempt's
  // clock may have counted the machine's sleep.
  static constexpr absl::Duration kMostBelieved = absl::Hours(1);

  // `slowest_step`: seconds of the slowest step of earlier attempts, zero for
  // none.
  HangLimit(absl::Duration configured, absl::Duration slowest_step,
            absl::Duration now);

  // The worker sent any message at `now`.
  void Heard(absl::Duration now);
  // The worker finished a step, which by its report took `seconds`. The limit
  // accepts at most the time since the step before it.
  void Stepped(absl::Duration now, double seconds);

  absl::Duration heard_at() const { return heard_at_; }
  absl::Duration limit() const;
  absl::Duration deadline() const { return heard_at_ + limit(); }

 private:
  const absl::Duration configured_;
  absl::Duration slowest_;
  absl::Duration heard_at_;
  absl::Duration stepped_at_;  // end of the last step, or the start
};

// The last message of a worker; none if the worker ended without one.
using LastWord = std::variant<std::monostate, report::Outcome, report::Failure,
                              report::Stopped>;

enum class Asked { kNothing, kPreempt, kCancel };

// What the daemon knows once the process has been reaped.
struct WorkerEnding {
  LastWord last_word;
  int wait_status = 0;  // as waitpid gives it
  Asked asked = Asked::kNothing;
  bool hung = false;       // killed because it sent no message for too long
  absl::Duration silence;  // how long it sent no message
  bool killed_after_grace = false;
  std::string protocol_error;  // killed because of this breach of the protocol
  std::string log_tail;        // the end of its stderr
};

// How the attempt ended, and a human-readable message. The first of these rows
// that applies decides:
//   nonsense on fd 3, not asked to cancel  ProtocolError
//   said Done                              Done, however the process ended:
//                                          the output was durable by then
//   asked to cancel                        Cancelled
//   silent for too long                    Hung
//   said Failed                            Machine if its errno is the
//                                          machine's fault, else Rejected,
//                                          OutOfMemory, NonFinite, or Crashed
//                                          for an internal error
//   asked to preempt                       Preempted, whether it said so, was
//                                          killed after the grace or crashed
//   said Stopped, unasked                  ProtocolError
//   signal, exit status, exit 0            Crashed
// If the end of the log contains a device's error (core/host/device_error.h),
// that error decides about a Crashed and a NonFinite: OutOfMemory, Rejected, or
// a Crashed that is tried again, with its advice. Messages of Crashed, Hung and
// ProtocolError end with the log's last lines.
WorkerListener::Result DecideExit(const WorkerEnding& ending);

// Whose fault the end of an attempt is, and the consequence. No other table
// decides this.
//
//   none            Done, Cancelled, Preempted (the daemon was stopped, or the
//                   machine was needed for something else). Nothing counts; a
//                   job that returns keeps its place.
//   the job's       Rejected, OutOfMemory, NonFinite, TimeLimit: it would end
//                   the same way, FAILED at once. Crashed, Hung, ProtocolError:
//                   counted as a failure, tried again after a wait, FAILED at
//                   the limit.
//   the machine's   Machine: a full disk or quota, no descriptor or process
//                   left, a device that fails, a volume that is away, a worker
//                   that cannot be started. Never counted; the job returns,
//                   and the queue holds for this reason and tries again after
//                   longer and longer waits. What only one job lacks (one of
//                   its paths that existed at Submit, space for its
//                   checkpoint) holds only that job.
//   an interruption Interrupted: daemon or machine went down with the attempt,
//                   or it was returned for memory pressure, which it may have
//                   caused itself. Counted unless the attempt wrote a new
//                   checkpoint; tried again after a wait and after the others,
//                   FAILED at a separate limit.
//
// A new checkpoint, beyond every earlier one, resets both counts to zero.
enum class BlamedParty { kNone, kJob, kMachine, kInterruption };
// The names are the labels of metrics.
inline constexpr report::EnumName<BlamedParty> kBlamedParties[] = {
    {BlamedParty::kNone, "none"},
    {BlamedParty::kJob, "job"},
    {BlamedParty::kMachine, "machine"},
    {BlamedParty::kInterruption, "interruption"}};
constexpr std::string_view Name(BlamedParty party) {
  return report::NameIn(kBlamedParties, party);
}

BlamedParty BlamedPartyFor(ExitReason reason);

// Whether a job may go back to the queue after such an end.
bool MayReturn(ExitReason reason);

// The meaning of an attempt's end, once the disk has been looked at.
struct Verdict {
  WorkerListener::Result result;
  std::string job_lacks;   // only holds this job; "" if nothing is lacking
  std::string disk_lacks;  // holds the queue; "" if nothing is lacking
  bool launched = true;    // false where no worker started
};

// Checks the disk if the disk may explain `result`. An error of the job then
// becomes kMachine, and its message begins with what the disk lacks.
// `min_free_bytes` is the option of the Scheduler. Does I/O: call it without a
// lock.
Verdict JudgeEnd(const WorkerListener::Result& result, const Job& job,
                 int64_t min_free_bytes, JobFiles& files);

// The result of an attempt whose daemon is gone, as seen on the machine's boot
// `boot_id` ("": unknown).
WorkerListener::Result Interruption(const Job& job, const std::string& boot_id);

struct RetryPolicy {
  // A job FAILED after this many failures, or this many interruptions, in a row
  // without a new checkpoint between them.
  int32_t max_failures = 3;
  int32_t max_interruptions = 5;
  // The wait after the first failure; each further wait is twice as long, up to
  // the cap.
  absl::Duration first_backoff = absl::Seconds(10);
  absl::Duration max_backoff = absl::Minutes(10);
};

// The next state of a RUNNING job.
struct NextState {
  State state = State::kFailed;
  int32_t failures = 0;
  int32_t interruptions = 0;
  bool runs_last = false;                // only with kQueued
  std::optional<absl::Time> not_before;  // only with kQueued
  std::string message;
};

// Decides by the table of BlamedParty. After a cancel every result but Done
// makes CANCELLED. A job that a user restarted from scratch while it ran
// (Job::fresh) returns to the queue however the attempt ended, except for its
// time limit.
NextState DecideNext(const RetryPolicy& policy, const Job& job,
                     const WorkerListener::Result& result, absl::Time now);

// The wait after the `count`th early end in a row.
absl::Duration Backoff(const RetryPolicy& policy, int32_t count);

}  // namespace mpsd::jobs
