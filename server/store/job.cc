// SPDX-License-Identifier: Apache-2.0
#include "server/store/job.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <utility>

#include "core/spec/train_spec.h"

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

namespace {

constexpr uint64_t kFortyBits = (uint64_t{1} << 40) - 1;

// Appends the low `digits` * 5 bits of `value`.
void AppendBase32(uint64_t value, int digits, std::string& text) {
  for (int i = digits - 1; i >= 0; --i) {
    text += spec::kJobIdLetters[(value >> (5 * i)) & 31];
  }
}

}  // namespace

JobIdGenerator::JobIdGenerator(const base::Clock& clock, Random random)
    : clock_(clock), random_(std::move(random)) {}

JobIdGenerator::Random JobIdGenerator::SystemRandom() {
  return [] {
    std::random_device device;
    return (uint64_t{device()} << 32) | device();
  };
}

std::string JobIdGenerator::Next() {
  absl::MutexLock lock(&mutex_);
  const uint64_t now = std::max<int64_t>(absl::ToUnixMillis(clock_.Now()), 0);
  if (now > millis_) {
    millis_ = now;
    high_ = random_() & kFortyBits;
    low_ = random_() & kFortyBits;
  } else if (low_ < kFortyBits) {
    ++low_;
  } else {
    low_ = 0;
    high_ = (high_ + 1) & kFortyBits;
    if (high_ == 0) ++millis_;
  }
  std::string id;
  id.reserve(26);
  AppendBase32(millis_, 10, id);
  AppendBase32(high_, 8, id);
  AppendBase32(low_, 8, id);
  return id;
}

bool IsJobId(std::string_view text) { return spec::IsJobId(text); }

}  // namespace mpsd::jobs
