// SPDX-License-Identifier: Apache-2.0
#include "client/top/job_row.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/text/format.h"
#include "client/text/host_text.h"
#include "core/base/printable.h"

namespace mpsd::client::top {
namespace {

constexpr size_t kNoteBytes = 160;

std::string Note(const v1::Job& job) {
  if (!job.hold().empty()) return job.hold();
  if (job.has_pause()) return PauseReasonText(job.pause());
  return job.message().substr(0, job.message().find('\n'));
}

}  // namespace

bool JobRow::is_final() const { return IsFinal(state); }

double JobRow::share() const {
  if (total_steps <= 0) return 0;
  return std::clamp(
      static_cast<double>(step) / static_cast<double>(total_steps), 0.0, 1.0);
}

JobRow RowOf(const v1::Job& job) {
  JobRow row;
  row.id = job.id();
  row.name = job.name();
  row.owner = job.owner();
  row.note = base::Shortened(Note(job), kNoteBytes);
  row.state = job.state();
  row.cancelling = job.cancel_requested() && !IsFinal(job.state());
  row.held = !job.hold().empty() && !IsFinal(job.state());
  row.paused = job.has_pause() && !IsFinal(job.state());
  row.priority = job.priority();
  row.attempt = job.attempt();
  if (job.has_queue_position()) row.queue_position = job.queue_position();
  if (job.has_eval_loss_after()) {
    row.eval_loss = job.eval_loss_after();
  } else if (job.has_eval_loss_before()) {
    row.eval_loss = job.eval_loss_before();
  }
  row.created = ToTime(job.create_time());
  if (job.has_progress()) AddProgress(job.progress(), &row);
  return row;
}

void AddProgress(const v1::Progress& progress, JobRow* row) {
  row->step = progress.step();
  row->total_steps = progress.total_steps();
  row->loss = progress.loss();
  row->step_seconds = progress.step_seconds();
  row->tokens_per_second = progress.tokens_per_second();
  row->eta_seconds = progress.eta_seconds();
}

std::string StepTime(double seconds) {
  // Steps of small models on a GPU differ by milliseconds.
  if (seconds >= 0 && seconds < 0.9995) {
    return absl::StrFormat("%.0fms", 1000 * seconds);
  }
  return Seconds(seconds);
}

std::string StateText(const JobRow& row) {
  if (row.cancelling) return "CANCELLING";
  if (row.held) return "HELD";
  if (row.paused && row.state == v1::JOB_STATE_RUNNING) return "PAUSED";
  if (row.state == v1::JOB_STATE_QUEUED && row.queue_position >= 0) {
    return absl::StrCat("QUEUED ", row.queue_position + 1);
  }
  return StateName(row.state);
}

Look StateLook(const JobRow& row) {
  if (row.cancelling || row.held || row.paused) return Look::kWarning;
  switch (row.state) {
    case v1::JOB_STATE_RUNNING:
      return Look::kGood;
    case v1::JOB_STATE_FAILED:
      return Look::kBad;
    case v1::JOB_STATE_QUEUED:
      return Look::kPlain;
    default:
      return Look::kFaint;
  }
}

}  // namespace mpsd::client::top
