// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/attempt_end.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/file.h"
#include "core/host/device_error.h"
#include "server/jobs/start_checks.h"

namespace mpsd::jobs {

HangLimit::HangLimit(absl::Duration configured, absl::Duration slowest_step,
                     absl::Duration now)
    : configured_(configured),
      slowest_(std::clamp(slowest_step, absl::ZeroDuration(), kMostBelieved)),
      heard_at_(now),
      stepped_at_(now) {}

void HangLimit::Heard(absl::Duration now) {
  slowest_ = std::max(slowest_, now - heard_at_);
  heard_at_ = now;
}

void HangLimit::Stepped(absl::Duration now, double seconds) {
  Heard(now);
  // NaN, zero and negative seconds do not lengthen the limit.
  if (seconds > 0) {
    slowest_ =
        std::max(slowest_, std::min(absl::Seconds(seconds), now - stepped_at_));
  }
  stepped_at_ = now;
}

absl::Duration HangLimit::limit() const {
  return std::max(configured_, kFactor * slowest_);
}

namespace {

constexpr ptrdiff_t kLogLines = 5;

std::string DescribeSilence(absl::Duration silence) {
  return absl::StrCat(
      "the worker stopped reporting and was killed after ",
      absl::FormatDuration(absl::Floor(silence, absl::Milliseconds(100))),
      " without a sign of work (mpsd --hang-timeout-seconds)");
}

struct SignalName {
  int number;
  const char* text;
};
constexpr SignalName kSignals[] = {
    {SIGABRT, "SIGABRT (a failed assertion)"},
    {SIGSEGV, "SIGSEGV (segmentation fault)"},
    {SIGBUS, "SIGBUS (bus error)"},
    {SIGILL, "SIGILL (illegal instruction)"},
    {SIGFPE, "SIGFPE (arithmetic error)"},
    {SIGTRAP, "SIGTRAP (trap)"},
    {SIGKILL, "SIGKILL (by a person, or by the system for want of memory)"},
    {SIGTERM, "SIGTERM"},
    {SIGINT, "SIGINT"},
    {SIGHUP, "SIGHUP"},
    {SIGPIPE, "SIGPIPE"},
    {SIGXCPU, "SIGXCPU (CPU time limit)"},
    {SIGXFSZ, "SIGXFSZ (file size limit)"},
};

std::string DescribeSignal(int number) {
  for (const SignalName& s : kSignals) {
    if (s.number == number) return s.text;
  }
  return absl::StrCat("signal ", number);
}

std::string DescribeWaitStatus(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return absl::StrCat("was killed by ",
                        DescribeSignal(WTERMSIG(wait_status)));
  }
  return absl::StrCat("exited with status ", WEXITSTATUS(wait_status));
}

// With the last lines of the log; `mpsctl logs` shows the others.
std::string WithTail(std::string message, const std::string& log_tail) {
  const std::vector<std::string> lines =
      absl::StrSplit(log_tail, '\n', absl::SkipWhitespace());
  if (lines.empty()) return message;
  const auto last = lines.end() - std::min(std::ssize(lines), kLogLines);
  return absl::StrCat(message, "; its log ends:\n",
                      absl::StrJoin(last, lines.end(), "\n"));
}

WorkerListener::Result Ended(ExitReason reason, std::string message) {
  WorkerListener::Result result;
  result.reason = reason;
  result.message = std::move(message);
  return result;
}

WorkerListener::Result FromDone(const report::Outcome& outcome,
                                int wait_status) {
  WorkerListener::Result result = Ended(ExitReason::kDone, "");
  if (wait_status != 0) {
    result.message = absl::StrCat("the worker had finished, then ",
                                  DescribeWaitStatus(wait_status));
  }
  result.outcome = outcome;
  return result;
}

// The reason and message of an end with `message` given the device's error in
// the log; nullopt if the log contains no such error.
std::optional<WorkerListener::Result> EndByDeviceError(
    const std::string& message, const std::string& log_tail) {
  const auto error = host::FindDeviceError(log_tail);
  if (!error) return std::nullopt;
  const std::string text = absl::StrCat(message, ": ", error->advice);
  switch (error->kind) {
    case host::DeviceError::Kind::kOutOfMemory:
      return Ended(ExitReason::kOutOfMemory, WithTail(text, log_tail));
    case host::DeviceError::Kind::kUnsupported:
    case host::DeviceError::Kind::kBadIndex:
      return Ended(ExitReason::kRejected, WithTail(text, log_tail));
    case host::DeviceError::Kind::kTransient:
      break;
  }
  return Ended(ExitReason::kCrashed, WithTail(text, log_tail));
}

WorkerListener::Result FromFailed(const report::Failure& failed,
                                  const std::string& log_tail) {
  if (failed.error && base::IsMachineFault(static_cast<int>(*failed.error))) {
    return Ended(ExitReason::kMachine, failed.message);
  }
  switch (failed.kind) {
    case report::FailureKind::kRejected:
      return Ended(ExitReason::kRejected, failed.message);
    case report::FailureKind::kOutOfMemory:
      return Ended(ExitReason::kOutOfMemory, failed.message);
    case report::FailureKind::kNonFinite:
      if (auto blamed = EndByDeviceError(failed.message, log_tail)) {
        return *blamed;
      }
      return Ended(ExitReason::kNonFinite, failed.message);
    case report::FailureKind::kInternal:
      break;
  }
  return Ended(
      ExitReason::kCrashed,
      WithTail(absl::StrCat("the worker failed: ", failed.message), log_tail));
}

std::string DescribePreemption(const WorkerEnding& ending) {
  if (std::holds_alternative<report::Stopped>(ending.last_word)) {
    return "stopped at a checkpoint";
  }
  if (ending.killed_after_grace) {
    return "killed: no checkpoint within the grace period";
  }
  return absl::StrCat("asked to stop, the worker ",
                      DescribeWaitStatus(ending.wait_status));
}

std::string DescribeCancel(const WorkerEnding& ending) {
  if (const auto* stopped = std::get_if<report::Stopped>(&ending.last_word);
      stopped != nullptr && stopped->step > 0) {
    return absl::StrCat("cancelled; it has a checkpoint of step ",
                        stopped->step);
  }
  if (const auto* failed = std::get_if<report::Failure>(&ending.last_word)) {
    return absl::StrCat("cancelled; ", failed->message);
  }
  return ending.killed_after_grace
             ? "cancelled; killed before it saved a checkpoint: its steps "
               "since the last one are lost"
             : "cancelled";
}

// Whether the same attempt would end the same way again.
bool IsForGood(ExitReason reason) {
  return reason == ExitReason::kRejected ||
         reason == ExitReason::kOutOfMemory ||
         reason == ExitReason::kNonFinite || reason == ExitReason::kTimeLimit;
}

}  // namespace

WorkerListener::Result DecideExit(const WorkerEnding& ending) {
  const bool cancelled = ending.asked == Asked::kCancel;
  if (!ending.protocol_error.empty() && !cancelled) {
    return Ended(ExitReason::kProtocolError,
                 WithTail(absl::StrCat("the worker broke the protocol: ",
                                       ending.protocol_error),
                          ending.log_tail));
  }
  if (const auto* done = std::get_if<report::Outcome>(&ending.last_word)) {
    return FromDone(*done, ending.wait_status);
  }
  if (cancelled) {
    return Ended(ExitReason::kCancelled, DescribeCancel(ending));
  }
  if (ending.hung) {
    return Ended(ExitReason::kHung,
                 WithTail(DescribeSilence(ending.silence), ending.log_tail));
  }
  if (const auto* failed = std::get_if<report::Failure>(&ending.last_word)) {
    return FromFailed(*failed, ending.log_tail);
  }
  if (ending.asked == Asked::kPreempt) {
    return Ended(ExitReason::kPreempted, DescribePreemption(ending));
  }
  if (std::holds_alternative<report::Stopped>(ending.last_word)) {
    return Ended(ExitReason::kProtocolError,
                 "the worker broke the protocol: it stopped without being "
                 "asked");
  }
  const std::string message =
      absl::StrCat("the worker ", DescribeWaitStatus(ending.wait_status),
                   " before it was done");
  if (auto blamed = EndByDeviceError(message, ending.log_tail)) return *blamed;
  return Ended(ExitReason::kCrashed, WithTail(message, ending.log_tail));
}

BlamedParty BlamedPartyFor(ExitReason reason) {
  switch (reason) {
    case ExitReason::kDone:
    case ExitReason::kCancelled:
    case ExitReason::kPreempted:
      return BlamedParty::kNone;
    case ExitReason::kRejected:
    case ExitReason::kOutOfMemory:
    case ExitReason::kNonFinite:
    case ExitReason::kCrashed:
    case ExitReason::kHung:
    case ExitReason::kTimeLimit:
    case ExitReason::kProtocolError:
      return BlamedParty::kJob;
    case ExitReason::kMachine:
      return BlamedParty::kMachine;
    case ExitReason::kInterrupted:
      return BlamedParty::kInterruption;
  }
  return BlamedParty::kJob;
}

bool MayReturn(ExitReason reason) {
  return reason != ExitReason::kDone && reason != ExitReason::kCancelled &&
         !IsForGood(reason);
}

Verdict JudgeEnd(const WorkerListener::Result& result, const Job& job,
                 int64_t min_free_bytes, JobFiles& files) {
  Verdict verdict{result, "", ""};
  const ExitReason reason = result.reason;
  if (reason != ExitReason::kMachine && reason != ExitReason::kCrashed &&
      reason != ExitReason::kRejected) {
    return verdict;
  }
  verdict.job_lacks = MissingPath(job, SpecOf(job), files);
  // A full disk rejects no job, so a Rejected keeps the worker's words.
  if (reason != ExitReason::kRejected) {
    verdict.disk_lacks = FullDisk(min_free_bytes, files);
  }
  const std::string& lacks =
      verdict.job_lacks.empty() ? verdict.disk_lacks : verdict.job_lacks;
  if (!lacks.empty()) {
    verdict.result.reason = ExitReason::kMachine;
    verdict.result.message = absl::StrCat(lacks, "; ", result.message);
  }
  return verdict;
}

WorkerListener::Result Interruption(const Job& job,
                                    const std::string& boot_id) {
  WorkerListener::Result result;
  result.reason = ExitReason::kInterrupted;
  result.message = "mpsd or the machine went down while the job ran";
  if (!job.boot_id.empty() && !boot_id.empty()) {
    result.message = job.boot_id == boot_id
                         ? "mpsd ended while the job ran"
                         : "the machine went down while the job ran";
  }
  return result;
}

namespace {

// Returns the job to the queue after a wait, for the `count`th early end of at
// most `limit`.
void Wait(const RetryPolicy& policy, const std::string& what, int32_t count,
          int32_t limit, absl::Time now, NextState& next) {
  const absl::Duration wait = Backoff(policy, count);
  next.state = State::kQueued;
  next.not_before = now + wait;
  next.message =
      absl::StrCat(what, " ", count, " of ", limit, ", tried again in ",
                   absl::FormatDuration(wait), ": ", next.message);
}

void AfterFailure(const RetryPolicy& policy, absl::Time now, NextState& next) {
  if (++next.failures < policy.max_failures) {
    return Wait(policy, "failure", next.failures, policy.max_failures, now,
                next);
  }
  next.message = absl::StrCat("gave up after ", next.failures,
                              " failures in a row: ", next.message);
}

void AfterInterruption(const RetryPolicy& policy, bool advanced, absl::Time now,
                       NextState& next) {
  if (advanced) {
    next.state = State::kQueued;
    next.message += "; it resumes from its last checkpoint";
    return;
  }
  if (++next.interruptions < policy.max_interruptions) {
    next.runs_last = true;
    return Wait(policy, "interruption", next.interruptions,
                policy.max_interruptions, now, next);
  }
  next.message = absl::StrCat(
      "gave up after ", next.interruptions,
      " interruptions in a row without a new checkpoint between: ",
      next.message,
      "; `mpsctl retry` queues it again, a smaller training.save_steps keeps "
      "more of an attempt");
}

}  // namespace

absl::Duration Backoff(const RetryPolicy& policy, int32_t count) {
  absl::Duration wait = policy.first_backoff;
  for (int32_t i = 1; i < count && wait < policy.max_backoff; ++i) wait *= 2;
  return std::min(wait, policy.max_backoff);
}

NextState DecideNext(const RetryPolicy& policy, const Job& job,
                     const WorkerListener::Result& result, absl::Time now) {
  NextState next;
  next.failures = job.failures;
  next.interruptions = job.interruptions;
  next.message = result.message;
  if (job.fresh && !job.cancel_requested &&
      result.reason != ExitReason::kTimeLimit) {
    next.state = State::kQueued;
    next.failures = next.interruptions = 0;
    next.message = "runs again from scratch, as requested";
    return next;
  }
  if (result.reason == ExitReason::kDone) {
    next.state = State::kSucceeded;
    next.failures = next.interruptions = 0;
    return next;
  }
  if (job.cancel_requested || result.reason == ExitReason::kCancelled) {
    next.state = State::kCancelled;
    return next;
  }
  switch (BlamedPartyFor(result.reason)) {
    case BlamedParty::kNone:
    case BlamedParty::kMachine:
      next.state = State::kQueued;
      break;
    case BlamedParty::kJob:
      if (!IsForGood(result.reason)) AfterFailure(policy, now, next);
      break;
    case BlamedParty::kInterruption:
      AfterInterruption(policy, job.advanced, now, next);
      break;
  }
  return next;
}

}  // namespace mpsd::jobs
