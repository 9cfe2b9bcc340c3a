// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace mpsd::jobs {
namespace {

constexpr std::pair<State, State> kTransitions[] = {
    {State::kQueued, State::kRunning},   {State::kQueued, State::kCancelled},
    {State::kQueued, State::kFailed},    {State::kRunning, State::kSucceeded},
    {State::kRunning, State::kFailed},   {State::kRunning, State::kCancelled},
    {State::kRunning, State::kQueued},   {State::kFailed, State::kQueued},
    {State::kCancelled, State::kQueued},
};

}  // namespace

bool CanTransition(State from, State to) {
  return std::find(std::begin(kTransitions), std::end(kTransitions),
                   std::pair(from, to)) != std::end(kTransitions);
}

bool IsFinal(State state) {
  return state == State::kSucceeded || state == State::kFailed ||
         state == State::kCancelled;
}

std::string_view Name(State state) {
  switch (state) {
    case State::kQueued:
      return "QUEUED";
    case State::kRunning:
      return "RUNNING";
    case State::kSucceeded:
      return "SUCCEEDED";
    case State::kFailed:
      return "FAILED";
    case State::kCancelled:
      return "CANCELLED";
  }
  return "UNKNOWN";
}

std::string_view Name(ExitReason reason) {
  switch (reason) {
    case ExitReason::kDone:
      return "Done";
    case ExitReason::kRejected:
      return "Rejected";
    case ExitReason::kOutOfMemory:
      return "OutOfMemory";
    case ExitReason::kNonFinite:
      return "NonFinite";
    case ExitReason::kCrashed:
      return "Crashed";
    case ExitReason::kHung:
      return "Hung";
    case ExitReason::kCancelled:
      return "Cancelled";
    case ExitReason::kPreempted:
      return "Preempted";
    case ExitReason::kProtocolError:
      return "ProtocolError";
    case ExitReason::kMachine:
      return "Machine";
    case ExitReason::kInterrupted:
      return "Interrupted";
  }
  return "Unknown";
}

}  // namespace mpsd::jobs
