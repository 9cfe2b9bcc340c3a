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
    {State::kCancelled, State::kQueued}, {State::kSucceeded, State::kQueued},
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

}  // namespace mpsd::jobs
