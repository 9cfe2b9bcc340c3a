// SPDX-License-Identifier: Apache-2.0
#include "client/event_printer.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/evaluation.h"
#include "client/text/format.h"

namespace mpsd::client {
namespace {

std::string StateText(const v1::StateChanged& state) {
  std::string text = StateName(state.state());
  if (!state.message().empty()) {
    absl::StrAppend(&text, "  ", Printable(state.message()));
  }
  return text;
}

std::string EvalText(const v1::Evaluated& evaluated) {
  const std::string where = evaluated.step() == 0
                                ? "before training"
                                : absl::StrCat("at step ", evaluated.step());
  const std::string metrics = MetricsText(evaluated.metrics());
  return absl::StrCat("eval loss ", Loss(evaluated.eval_loss()), " ", where,
                      metrics.empty() ? "" : ", ", metrics);
}

std::string CheckpointText(const v1::Checkpoint& checkpoint) {
  return absl::StrCat("checkpoint of step ", checkpoint.step(), " (",
                      Bytes(checkpoint.size_bytes()), ")");
}

constexpr size_t kLongestSparkline = 20;

}  // namespace

void EventPrinter::Line(const v1::JobEvent& event, const std::string& text) {
  line_.PrintAbove(
      absl::StrCat(absl::FormatTime("%H:%M:%S", ToTime(event.time()),
                                    console_.terminal.zone),
                   "  ", text));
}

void EventPrinter::PrintProgress(const v1::JobEvent& event) {
  const v1::Progress& progress = event.progress();
  if (console_.terminal.is_tty) {
    if (losses_.size() == kLongestSparkline) losses_.erase(losses_.begin());
    losses_.push_back(progress.loss());
    line_.Draw(progress.step(), progress.total_steps(),
               StepText(progress, losses_, console_.terminal));
    return;
  }
  const int64_t percent = progress.total_steps() > 0
                              ? 100 * progress.step() / progress.total_steps()
                              : 0;
  if (percent == last_percent_ && progress.total_steps() > 100) return;
  last_percent_ = percent;
  Line(event, absl::StrCat(StepText(progress),
                           absl::StrFormat("  lr %.3g  grad norm %.3g",
                                           progress.learning_rate(),
                                           progress.grad_norm())));
}

void EventPrinter::Print(const v1::JobEvent& event) {
  if (console_.json) return console_.PrintJson(event);
  switch (event.event_case()) {
    case v1::JobEvent::kState:
      return Line(event, StateText(event.state()));
    case v1::JobEvent::kProgress:
      return PrintProgress(event);
    case v1::JobEvent::kEvaluated:
      return Line(event, EvalText(event.evaluated()));
    case v1::JobEvent::kCheckpoint:
      return Line(event, CheckpointText(event.checkpoint()));
    case v1::JobEvent::kNote:
      return Line(event, Printable(event.note()));
    case v1::JobEvent::kWarning:
      return Line(event, absl::StrCat("warning: ", Printable(event.warning())));
    case v1::JobEvent::EVENT_NOT_SET:
      return;  // a newer daemon's event
  }
}

void PrintOutcome(const Console& console, const v1::Job& job) {
  std::ostream& out = console.out;
  out << "Job " << job.id() << " " << StateName(job.state());
  if (job.has_start_time() && job.has_end_time()) {
    const absl::Duration took =
        ToTime(job.end_time()) - ToTime(job.start_time());
    out << " after " << Seconds(absl::ToDoubleSeconds(took));
  }
  if (job.state() != v1::JOB_STATE_SUCCEEDED && !job.message().empty()) {
    out << ": " << PrintableLines(job.message());
  }
  out << '\n';
  if (job.has_eval_loss_before() && job.has_eval_loss_after()) {
    out << "  eval loss " << Loss(job.eval_loss_before()) << " before, "
        << Loss(job.eval_loss_after()) << " after\n";
  }
  if (!job.metrics().empty()) {
    out << "  metrics   " << MetricsText(job.metrics()) << '\n';
  }
  if (!job.output_path().empty()) {
    const bool model = job.output_kind() == v1::OUTPUT_KIND_MODEL;
    out << (IsStudy(job.kind()) ? "  result    "
            : model             ? "  model     "
                                : "  adapter   ")
        << Printable(job.output_path()) << '\n';
  }
  if (job.state() == v1::JOB_STATE_SUCCEEDED && IsStudy(job.kind())) {
    out << "See what it found with `mpsctl show " << job.id() << "`.\n";
  } else if (job.state() == v1::JOB_STATE_SUCCEEDED) {
    out << "Fetch it with `mpsctl download " << job.id() << " --output DIR`.\n";
  } else if (job.state() == v1::JOB_STATE_FAILED) {
    out << "Read its log with `mpsctl logs " << job.id() << "`.\n";
  }
  out << std::flush;
}

}  // namespace mpsd::client
