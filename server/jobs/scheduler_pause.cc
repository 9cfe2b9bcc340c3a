// SPDX-License-Identifier: Apache-2.0
// The part of the Scheduler that minds the people who share the machine.
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "server/jobs/scheduler.h"

namespace mpsd::jobs {

absl::Time Scheduler::HeedHost() {
  if (parts_.host == nullptr) return absl::InfiniteFuture();
  const absl::Duration now = parts_.clock.Monotonic();
  if (host_read_at_ && now - *host_read_at_ < options_.host_interval) {
    return LookAgain();
  }
  host_read_at_ = now;
  const host::Reading reading = parts_.host->Read();
  parts_.metrics.HostRead(reading);
  std::string id;
  {
    Turn turn(*this);
    view_.Change([&](ManagerInfo& info) { info.host = reading; });
    TellUntold(reading);
    gate_.Observe(reading, parts_.clock.Now(), now);
    parts_.metrics.Paused(gate_.reasons());
    if (HeedReasons()) id = attempt_->run.job().id;
  }
  if (!id.empty()) hub_.Wake(id);
  return LookAgain();
}

void Scheduler::SetPausePolicy(PausePolicy policy) {
  absl::MutexLock lock(&mutex_);
  gate_.SetPolicy(std::move(policy));
}

absl::Time Scheduler::LookAgain() const {
  base::Check(host_read_at_.has_value(), "the machine was looked at");
  return parts_.clock.Now() + options_.host_interval -
         (parts_.clock.Monotonic() - *host_read_at_);
}

void Scheduler::TellUntold(const host::Reading& reading) {
  PauseReasons untold = gate_.Untold(reading);
  if (untold == untold_.value_or(PauseReasons())) return;
  if (!untold.empty()) {
    journal_.Add(
        "", absl::StrCat("asked to pause for what this machine does not tell: ",
                         Describe(untold)));
  }
  untold_ = std::move(untold);
}

bool Scheduler::HeedReasons() {
  if (!attempt_ || attempt_->ended || !attempt_->worker || draining_ ||
      attempt_->run.job().cancel_requested || !attempt_->returned_for.empty()) {
    return false;
  }
  const PauseReasons& reasons = gate_.reasons();
  if (!attempt_->paused) {
    if (reasons.empty()) return false;
    PauseAttempt();
  } else if (reasons.empty()) {
    ResumeAttempt();
  } else if (parts_.clock.Monotonic() - attempt_->paused->since >=
             HoldLimit(gate_.policy(), reasons)) {
    ReturnAttempt();
  } else {
    return false;
  }
  return true;
}

void Scheduler::PauseAttempt() {
  base::Check(!attempt_->paused, "an attempt is paused once at a time");
  attempt_->paused =
      Attempt::Paused{parts_.clock.Monotonic(), parts_.clock.Now(), false};
  attempt_->worker->Pause();
  NoteAttempt(absl::StrCat("paused: ", Describe(gate_.reasons())));
}

void Scheduler::ResumeAttempt() {
  base::Check(attempt_->paused.has_value(), "Resume comes after Pause");
  const absl::Duration length = absl::Floor(
      parts_.clock.Monotonic() - attempt_->paused->since, absl::Seconds(1));
  attempt_->paused.reset();
  attempt_->worker->Resume();
  KeepAwake();
  NoteAttempt(
      absl::StrCat("goes on after a pause of ", absl::FormatDuration(length)));
}

void Scheduler::ReturnAttempt() {
  attempt_->returned_for = gate_.reasons();
  attempt_->worker->Preempt(options_.stop_grace);
  NoteAttempt("a long pause: asked for a checkpoint, to give the memory back");
}

void Scheduler::NoteAttempt(const std::string& text) {
  attempt_->run.Noted(text, parts_.clock.Now());
  FlushAttempt();
  Log(attempt_->run.job().id, text);
}

void Scheduler::KeepAwake() {
  if (parts_.host == nullptr || attempt_->paused) return;
  attempt_->awake = parts_.host->KeepAwake(
      absl::StrCat("mpsd trains job ", attempt_->run.job().id));
}

void Scheduler::OnHeld() {
  std::string id;
  {
    Turn turn(*this);
    base::Check(attempt_ != nullptr, "a worker reports within its attempt");
    id = attempt_->run.job().id;
    if (!attempt_->paused) return;  // a Resume is on its way
    attempt_->paused->held = true;
    FlushAttempt();  // the step that OnProgress held back is the last one now
    // The machine may sleep now.
    attempt_->awake.reset();
  }
  hub_.Wake(id);
}

void Scheduler::OnResumed() {
  std::string id;
  {
    Turn turn(*this);
    base::Check(attempt_ != nullptr, "a worker reports within its attempt");
    id = attempt_->run.job().id;
    if (attempt_->paused) attempt_->paused->held = false;
  }
  hub_.Wake(id);
}

Pause Scheduler::AttemptPause() const {
  if (!attempt_->paused) return {};
  return {gate_.reasons(), attempt_->paused->held,
          attempt_->paused->since_time};
}

}  // namespace mpsd::jobs
