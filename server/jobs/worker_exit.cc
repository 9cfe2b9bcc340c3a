// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/worker_exit.h"

#include <sys/wait.h>

#include <csignal>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/machine_fault.h"
#include "core/host/device_error.h"

namespace mpsd::jobs {
namespace {

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

std::string WithTail(std::string message, const std::string& log_tail) {
  const std::string tail(absl::StripAsciiWhitespace(log_tail));
  if (tail.empty()) return message;
  return absl::StrCat(message, "; its log ends:\n", tail);
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

// What the device's error in the log makes of an end with `message`; nullopt
// where the log holds no such error.
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

}  // namespace

std::string DescribeWaitStatus(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return absl::StrCat("was killed by ",
                        DescribeSignal(WTERMSIG(wait_status)));
  }
  return absl::StrCat("exited with status ", WEXITSTATUS(wait_status));
}

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
  if (cancelled) return Ended(ExitReason::kCancelled, "cancelled");
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

}  // namespace mpsd::jobs
