// SPDX-License-Identifier: Apache-2.0
#include "core/study/profiled_steps.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/device/block_mark.h"
#include "core/device/trace_file.h"

namespace mpsd::study {

using train::StopRequest;

void ProfiledSteps::OnStep(const report::Progress& progress) {
  const std::optional<StepKind> kind = plan_.Next();
  base::Check(kind.has_value(), "the plan has the step");
  plan_.Taken();
  steps_.push_back({*kind, progress});
  between_ = true;
  // The run itself has no end: its total is the plan's.
  report::Progress forwarded = progress;
  forwarded.total_steps = plan_.total();
  observer_.OnStep(forwarded);
}

StopRequest ProfiledSteps::stop_request() {
  {
    // The observer may block during a pause.
    const profile::BlockMark mark("mpsd::held");
    const StopRequest asked = observer_.stop_request();
    // Never kPreempt, for which the run would save a checkpoint.
    if (asked != StopRequest::kNone) return StopRequest::kCancel;
  }
  if (complete_) return StopRequest::kCancel;
  if (!std::exchange(between_, false)) return StopRequest::kNone;
  if (recorder_.recording() && plan_.EndsSession()) EndSession();
  const std::optional<StepKind> next = plan_.Next();
  complete_ = !next.has_value();
  if (complete_) return StopRequest::kCancel;
  if (*next == StepKind::kProfiled && !recorder_.recording()) {
    session_steps_ = 0;
    recorder_.Start();
  }
  if (*next == StepKind::kProfiled) ++session_steps_;
  return StopRequest::kNone;
}

void ProfiledSteps::EndSession() {
  const profile::Capture capture = recorder_.Stop();
  session_events_ = static_cast<int64_t>(capture.events.size());
  tally_.Add(capture);
  plan_.Note(session_events_, session_steps_);
}

void ProfiledSteps::Finish(const std::filesystem::path& folder,
                           ProfileFacts& facts) {
  facts.steps = std::move(steps_);
  facts.tally = std::move(tally_);
  const std::string name = "trace.json.gz";
  const std::filesystem::path json = folder / "trace.json";
  absl::Status saved = recorder_.Save(json);
  if (saved.ok()) {
    const auto bytes = profile::PackTrace(json, folder / name);
    saved = bytes.status();
    if (saved.ok()) {
      facts.trace = {name, *bytes, session_steps_, session_events_};
    }
  }
  if (saved.ok()) return;
  facts.not_told.push_back(
      absl::StrCat("there is no trace: ", std::string(saved.message())));
}

std::optional<StepKind> ProfilePlan::Next() const {
  if (left_ == 0) return std::nullopt;
  return next_;
}

void ProfilePlan::Taken() {
  ++taken_;
  ++in_part_;
  const auto go_on = [this](StepKind next) {
    next_ = next;
    in_part_ = 0;
  };
  switch (next_) {
    case StepKind::kWarmUp:
      if (in_part_ == warm_up_) go_on(StepKind::kPlain);
      break;
    case StepKind::kPlain:
      if (in_part_ == kPlainSteps) go_on(StepKind::kProfiled);
      break;
    case StepKind::kProfiled:
      --left_;
      if (in_part_ == session_) go_on(StepKind::kPlain);
      break;
  }
}

void ProfilePlan::Note(int64_t events, int64_t steps) {
  const int64_t each =
      std::max<int64_t>(events / std::max<int64_t>(steps, 1), 1);
  session_ = std::clamp<int64_t>(kSessionEvents / each, 1, kSessionSteps);
}

int64_t ProfilePlan::total() const {
  // The sessions to come, and what this one still needs.
  int64_t total = taken_ + left_;
  int64_t profiled = left_;
  switch (next_) {
    case StepKind::kWarmUp:
      total += warm_up_ - in_part_ + kPlainSteps;
      break;
    case StepKind::kPlain:
      if (left_ > 0) total += kPlainSteps - in_part_;
      break;
    case StepKind::kProfiled:
      profiled += in_part_;
      break;
  }
  const int64_t sessions = (profiled + session_ - 1) / session_;
  return total + std::max<int64_t>(sessions - 1, 0) * kPlainSteps;
}

}  // namespace mpsd::study
