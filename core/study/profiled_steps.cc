// SPDX-License-Identifier: Apache-2.0
#include "core/study/profiled_steps.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/profile/block_mark.h"
#include "core/profile/trace_file.h"

namespace mpsd::study {

using train::StopRequest;

void ProfiledSteps::OnStep(const report::Progress& progress) {
  const std::optional<StepKind> kind = plan_.Next();
  base::Check(kind.has_value(), "the plan has the step");
  plan_.Taken();
  steps_.push_back({*kind, progress});
  between_ = true;
  // The run itself has no end: its total is the plan's.
  report::Progress told = progress;
  told.total_steps = plan_.total();
  observer_.OnStep(told);
}

StopRequest ProfiledSteps::stop_request() {
  {
    // The observer may block for as long as a pause lasts.
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

}  // namespace mpsd::study
