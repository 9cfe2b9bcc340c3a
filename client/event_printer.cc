// SPDX-License-Identifier: Apache-2.0
#include "client/event_printer.h"

#include <google/protobuf/util/field_comparator.h>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/connection.h"
#include "client/show.h"
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

namespace {

// How long the stored events of a job without progress may take to arrive.
constexpr std::chrono::milliseconds kStoredEvents{1000};

bool SameProgress(const v1::Progress& a, const v1::Progress& b) {
  google::protobuf::util::DefaultFieldComparator comparator;
  comparator.set_treat_nan_as_equal(true);  // a loss may be NaN
  google::protobuf::util::MessageDifferencer differencer;
  differencer.set_field_comparator(&comparator);
  return differencer.Compare(a, b);
}

}  // namespace

bool RowReached::Add(const v1::JobEvent& event) {
  if (event.has_progress()) {
    progress_ = progress_ || SameProgress(event.progress(), job_.progress());
  } else if (event.has_evaluated()) {
    const double latest = job_.has_eval_loss_after() ? job_.eval_loss_after()
                                                     : job_.eval_loss_before();
    const double loss = event.evaluated().eval_loss();
    evaluated_ = evaluated_ || loss == latest ||
                 (std::isnan(loss) && std::isnan(latest));
  }
  const bool has_evaluation =
      job_.has_eval_loss_after() || job_.has_eval_loss_before();
  return (progress_ || !job_.has_progress()) && (evaluated_ || !has_evaluation);
}

grpc::Status ReadEvents(const Console& console, const v1::Job& job,
                        const std::function<void(v1::JobEvent&)>& take,
                        bool* interrupted) {
  const bool goes_on = !IsFinal(job.state());
  RowReached reached(job);
  grpc::ClientContext context;
  const bool waits = !reached.Add({});
  if (goes_on && !waits) {
    // The row gives nothing to wait for, and the stream does not mark where the
    // stored events end.
    context.set_deadline(std::chrono::system_clock::now() + kStoredEvents);
  } else if (goes_on) {
    // The row's progress may never arrive: another event may have replaced it
    // in the daemon's store.
    SetDeadline(context);
  }
  Interrupt::Listener listener(console.terminal.interrupt,
                               [&context] { context.TryCancel(); });
  v1::WatchRequest request;
  request.set_id(job.id());
  auto reader = console.daemon.jobs().Watch(&context, request);
  v1::JobEvent event;
  bool enough = false;
  while (!enough && reader->Read(&event)) {
    enough = goes_on && waits && reached.Add(event);
    take(event);
  }
  if (enough) context.TryCancel();
  const grpc::Status status = reader->Finish();
  *interrupted = listener.raised();
  const bool late =
      goes_on && status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  return (enough || late) && !*interrupted ? grpc::Status::OK : status;
}

absl::Duration RetryPause::Wait() {
  pause_ = std::clamp(pause_ * 2, absl::Milliseconds(200), absl::Seconds(2));
  console_.terminal.sleep(pause_);
  console_.daemon.Reset();
  return pause_;
}

namespace {

// Whether a stream may end with this status when its daemon stops or the
// connection breaks; OK comes from a daemon that closed the stream in an
// orderly way before the job had ended.
bool MayPass(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNAVAILABLE ||
         code == grpc::StatusCode::CANCELLED || code == grpc::StatusCode::OK;
}

}  // namespace

void Reconnect::Received() {
  received_ = true;
  pause_.Restart();
  waited_ = absl::ZeroDuration();
}

bool Reconnect::ShouldRetry(const grpc::Status& status) {
  if (!received_ || !MayPass(status.error_code())) return false;
  if (waited_ >= limit_) return false;
  // A host that refuses this account's key would refuse it again, and may count
  // the attempts.
  const absl::Status tunnel = console_.daemon.tunnel_status();
  if (!tunnel.ok() && !absl::IsUnavailable(tunnel)) return false;
  if (waited_ == absl::ZeroDuration()) {
    console_.err << "mpsctl: lost the connection to mpsd; trying again for "
                 << Seconds(absl::ToDoubleSeconds(limit_)) << '\n'
                 << std::flush;
  }
  waited_ += pause_.Wait();
  return true;
}

}  // namespace mpsd::client
