// SPDX-License-Identifier: Apache-2.0
#include "client/watch.h"

#include <google/protobuf/util/field_comparator.h>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/app.h"
#include "client/connection.h"
#include "client/jobs.h"
#include "client/show.h"
#include "client/text/format.h"
#include "client/text/watch_screen.h"
#include "core/base/text.h"
#include "core/base/units.h"

namespace mpsd::client {
namespace {

std::string StateChangeText(const v1::StateChanged& state) {
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
                      base::BytesText(checkpoint.size_bytes()), ")");
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
      return Line(event, StateChangeText(event.state()));
    case v1::JobEvent::kProgress:
      return PrintProgress(event);
    case v1::JobEvent::kEvaluated:
      return Line(event, EvalText(event.evaluated()));
    case v1::JobEvent::kCheckpoint:
      return Line(event, CheckpointText(event.checkpoint()));
    case v1::JobEvent::kSampled:
      for (int i = 0; i < event.sampled().completions_size(); ++i) {
        Line(event,
             absl::StrFormat("sample %d at step %d: %s", i + 1,
                             event.sampled().step(),
                             base::Quotable(event.sampled().completions(i))));
      }
      return;
    case v1::JobEvent::kNote:
      return Line(event, absl::StrReplaceAll(Printable(event.note()),
                                             {{"paused: ", "PAUSED: "}}));
    case v1::JobEvent::kWarning:
      return Line(event, absl::StrCat("warning: ", Printable(event.warning())));
    case v1::JobEvent::EVENT_NOT_SET:
      return;  // a newer daemon's event
  }
}

void EventPrinter::PrintWaiting(const std::string& what,
                                const std::string& text) {
  if (console_.terminal.is_tty) return line_.Draw(text);
  const absl::Time now = console_.terminal.clock->Now();
  if (what == waiting_ || now < next_waiting_) return;
  waiting_ = what;
  // A text with the free bytes of a disk changes at each look.
  next_waiting_ = now + absl::Seconds(30);
  console_.out << absl::FormatTime("%H:%M:%S", now, console_.terminal.zone)
               << "  " << Printable(text) << '\n'
               << std::flush;
}

void PrintOutcome(const Console& console, const v1::Job& job) {
  std::ostream& out = console.out;
  out << "Job " << job.id() << " " << StateName(job.state());
  const std::string took = TookText(job);
  if (!took.empty()) out << " after " << took;
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
    out << absl::StrFormat("  %-10s", OutputName(job))
        << Printable(job.output_path()) << '\n';
  }
  out << NextStep(job) << '\n' << std::flush;
}

namespace {

// How long the stored events of a job without progress may take to arrive.
constexpr absl::Duration kStoredEvents = absl::Seconds(1);

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
                        const std::function<void(const v1::JobEvent&)>& take,
                        bool* interrupted) {
  const bool goes_on = !IsFinal(job.state());
  RowReached reached(job);
  const bool waits = !reached.Add({});
  // A row without progress gives nothing to wait for, and the stream does not
  // mark where the stored events end. Else the row's progress may never arrive:
  // another event may have replaced it in the daemon's store.
  const absl::Duration patience = !goes_on ? absl::InfiniteDuration()
                                  : waits  ? kCallPatience
                                           : kStoredEvents;
  v1::WatchRequest request;
  request.set_id(job.id());
  const grpc::Status status = console.daemon.Read(
      &JobStub::Watch, request, interrupted,
      [&](const v1::JobEvent& event) {
        const bool enough = goes_on && waits && reached.Add(event);
        take(event);
        return !enough;
      },
      patience);
  const bool late =
      goes_on && status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  return late && !*interrupted ? grpc::Status::OK : status;
}

void AddPatience(Command& verb, int64_t& seconds) {
  verb.add_option("--patience SECONDS", seconds,
                  "How long to wait for a daemon that is unreachable")
      ->capture_default_str();
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
                 << Seconds(limit_) << '\n'
                 << std::flush;
  }
  waited_ += pause_.Wait();
  return true;
}

namespace {

// How long a stream is read before the place of a job that waits is read again:
// at first, until the stored events are there, and then.
constexpr absl::Duration kFirstLook = absl::Milliseconds(500);
constexpr absl::Duration kLook = absl::Seconds(2);

class Watcher {
 public:
  Watcher(const Console& console, const WatchOptions& options)
      : console_(console),
        options_(options),
        last_(options.after_sequence),
        looks_(options.last_sequence == nullptr && !console.json),
        waits_(looks_),
        printer_(console),
        reconnect_(console, options.patience) {}

  ExitCode Run() {
    while (true) {
      bool interrupted = false;
      grpc::Status status = Stream(&interrupted);
      const bool late =
          status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
      if (!interrupted && (late || std::exchange(requeued_, false))) {
        status = Look();
        if (status.ok()) continue;
      }
      v1::Job job;
      if (status.ok()) status = Get(&job);
      printer_.Clear();
      if (interrupted) return Detached();
      if (options_.last_sequence != nullptr) {
        *options_.last_sequence = last_;
        if (waits_again_) return ExitCode::kOk;
      }
      if (status.ok() && IsFinal(job.state())) return Ended(job);
      if (!reconnect_.ShouldRetry(status)) return GiveUp(status);
    }
  }

 private:
  grpc::Status Stream(bool* interrupted) {
    v1::WatchRequest request;
    request.set_id(options_.id);
    request.set_after_sequence(last_);
    return console_.daemon.Read(
        &JobStub::Watch, request, interrupted,
        [this](const v1::JobEvent& event) {
          reconnect_.Received();
          last_ = event.sequence();
          if (looks_ && event.has_state()) {
            const bool waited = std::exchange(
                waits_, event.state().state() == v1::JOB_STATE_QUEUED);
            requeued_ = waits_ && !waited;
            printer_.Clear();
          }
          printer_.Print(event);
          return !requeued_ &&
                 (options_.last_sequence == nullptr || !WaitsAgain(event));
        },
        waits_ ? std::exchange(look_, kLook) : absl::InfiniteDuration());
  }

  // Shows what the job waits for. OK too if the daemon is busy.
  grpc::Status Look() {
    v1::Job job;
    grpc::Status status = Get(&job);
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      return grpc::Status::OK;
    }
    if (!status.ok()) return status;
    reconnect_.Received();
    waits_ = job.state() == v1::JOB_STATE_QUEUED;
    if (waits_) {
      const Terminal& terminal = console_.terminal;
      const auto text = [&](const std::string& eta) {
        return StatusText(job, terminal.clock->Now(), terminal.zone, eta);
      };
      printer_.PrintWaiting(text(""), text(RunningEta(console_, job)));
    }
    return status;
  }

  // Whether `event` returned the job to the queue, and it is still there.
  bool WaitsAgain(const v1::JobEvent& event) {
    v1::Job job;
    waits_again_ = event.state().state() == v1::JOB_STATE_QUEUED &&
                   Get(&job).ok() && job.state() == v1::JOB_STATE_QUEUED;
    return waits_again_;
  }

  grpc::Status Get(v1::Job* job) { return GetJob(console_, options_.id, job); }

  ExitCode Ended(const v1::Job& job) {
    if (console_.json) {
      console_.PrintJson(job);
    } else {
      PrintOutcome(console_, job);
    }
    return ForJobState(job.state());
  }

  ExitCode Detached() {
    console_.err << "Detached; job " << options_.id << " is still "
                 << (waits_ ? "queued" : "running") << ".\n"
                 << "Watch it again with `" << WatchAgain()
                 << "`, stop it with `mpsctl cancel " << options_.id << "`.\n";
    return ExitCode::kDetached;
  }

  ExitCode GiveUp(const grpc::Status& status) {
    const ExitCode code =
        status.ok()
            ? console_.Fail(ExitCode::kUnreachable,
                            "mpsd ended the stream before the job ended", "")
            : console_.Fail(status);
    if (code == ExitCode::kUnreachable || code == ExitCode::kTryAgain) {
      console_.err << "The job is safe in the daemon's database: it resumes "
                      "once mpsd runs. Resume with `"
                   << WatchAgain() << "`.\n";
    }
    return code;
  }

  std::string WatchAgain() const {
    return absl::StrCat("mpsctl watch ", options_.id, " --after-event ", last_);
  }

  const Console& console_;
  const WatchOptions options_;
  int64_t last_;
  bool waits_again_ = false;
  const bool looks_;  // shows what a job that is queued waits for
  bool waits_;        // it is queued, as far as known
  bool requeued_ = false;
  absl::Duration look_ = kFirstLook;
  EventPrinter printer_;
  Reconnect reconnect_;
};

}  // namespace

ExitCode Watch(const Console& console, const WatchOptions& options) {
  return Watcher(console, options).Run();
}

namespace {

struct WatchArguments {
  std::string id;
  const Option* named = nullptr;  // the ID
  int64_t after = 0;
  int64_t patience_seconds = 120;
};

void DeclareWatch(Command& verb, WatchArguments& options) {
  Option* id = verb.add_option(kJobIdName, options.id,
                               "The job; without one, all that run, one after "
                               "the other, until Ctrl-C");
  options.named = id;
  verb.add_option("--after-event N", options.after,
                  "Leave out the events up to this sequence number")
      ->needs(id);
  AddPatience(verb, options.patience_seconds);
}

ExitCode RunWatch(const WatchArguments& options, const Console& console) {
  const absl::Duration patience = absl::Seconds(options.patience_seconds);
  if (!options.named->given()) return Follow(console, patience);
  ExitCode code;
  const auto id = ResolveJobId(console, options.id, &code);
  if (!id) return code;
  return Watch(console, {*id, options.after, patience});
}

constexpr absl::Duration kBetweenPolls = absl::Seconds(1);
constexpr absl::Duration kBetweenLooks = absl::Milliseconds(100);
constexpr int kPollsPerQueue = 5;

// Follows the running job, and then the next one. Changes no mode of the
// terminal, so that nothing needs restoring however it ends.
class Follower {
 public:
  Follower(const Console& console, absl::Duration patience)
      : console_(console),
        patience_(patience),
        terminal_(console.terminal),
        on_screen_(console.terminal.is_tty && !console.json),
        inner_{console.out, on_screen_ ? nowhere_ : console.err, terminal_,
               console.daemon, console.json},
        listener_(console.terminal.interrupt, [] {}) {
    // Ctrl-C ends a pause, and a resize redraws during it.
    terminal_.sleep = [this](absl::Duration pause) {
      for (; pause > absl::ZeroDuration() && !stopped();
           pause -= kBetweenLooks) {
        console_.terminal.sleep(std::min(pause, kBetweenLooks));
        if (drawn_ && Size() != drawn_size_) Draw();
      }
    };
  }

  ExitCode Run() { return on_screen_ ? OnScreen() : InLines(); }

 private:
  // One screen, drawn again and again.
  ExitCode OnScreen() {
    Reconnect reconnect(inner_, patience_);
    grpc::Status status = Poll();
    while (!stopped()) {
      if (status.ok()) {
        reconnect.Received();
        watched_.answered = console_.terminal.clock->Now();
        watched_.lost.clear();
      } else if (!drawn_) {
        return console_.Fail(status);
      } else {
        watched_.lost = status.error_message();
      }
      Draw();
      if (status.ok()) {
        terminal_.sleep(kBetweenPolls);
      } else if (!reconnect.ShouldRetry(status)) {
        return console_.Fail(status);
      }
      if (!stopped()) status = Poll();
    }
    return Stopped();
  }

  // Each job's events, as `watch ID` prints them.
  ExitCode InLines() {
    Reconnect reconnect(inner_, patience_);
    std::map<std::string, int64_t> seen;  // the last event of each job
    bool waits = false;
    while (!stopped()) {
      v1::Job job;
      const grpc::Status status = Running(&job);
      if (stopped()) break;
      if (!status.ok()) {
        if (!reconnect.ShouldRetry(status)) return console_.Fail(status);
        continue;
      }
      reconnect.Received();
      if (job.id().empty()) {
        if (!std::exchange(waits, true)) {
          console_.err << "No job runs; waiting for one.\n" << std::flush;
        }
        terminal_.sleep(kBetweenPolls);
        continue;
      }
      waits = false;
      if (console_.json) {
        console_.PrintJson(job);
      } else {
        console_.out << "Job " << job.id() << " " << Printable(job.name())
                     << '\n';
      }
      WatchOptions options = {job.id(), seen[job.id()], patience_};
      options.last_sequence = &seen[job.id()];
      const ExitCode code = Watch(inner_, options);
      if (code != ExitCode::kOk && code != ExitCode::kJobFailed &&
          code != ExitCode::kJobCancelled) {
        return code;
      }
    }
    return Stopped();
  }

  bool stopped() const { return listener_.raised(); }
  std::pair<int, int> Size() const {
    return {console_.terminal.columns(), console_.terminal.rows()};
  }

  ExitCode Stopped() const {
    console_.err << "Detached; jobs are still running.\n";
    return ExitCode::kDetached;
  }

  // One call, which Ctrl-C aborts. A daemon that hangs counts as unreachable.
  template <typename Method, typename Request, typename Response>
  grpc::Status Ask(Method method, const Request& request, Response* response) {
    bool interrupted = false;
    grpc::Status status = console_.daemon.CallLong(method, request, response,
                                                   &interrupted, kCallPatience);
    return status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED
               ? status
               : grpc::Status(grpc::StatusCode::UNAVAILABLE,
                              "mpsd did not answer in time");
  }

  // The running job; without an id if none runs.
  grpc::Status Running(v1::Job* job) {
    v1::ListJobsRequest request;
    request.add_states(v1::JOB_STATE_RUNNING);
    request.set_page_size(1);
    v1::ListJobsResponse response;
    grpc::Status status = Ask(&JobStub::List, request, &response);
    if (!response.jobs().empty()) *job = response.jobs(0);
    return status;
  }

  // Fetches what the screen shows.
  grpc::Status Poll() {
    v1::Job job;
    grpc::Status status = Running(&job);
    const int64_t queued = watched_.info.queued_jobs();
    if (status.ok()) {
      status = Ask(&DaemonStub::Info, v1::InfoRequest(), &watched_.info);
    }
    if (!status.ok()) return status;
    const bool is_new = job.id() != watched_.job.id();
    if (is_new) {
      watched_.losses.clear();
      bool interrupted = false;
      const auto add = [this](const v1::JobEvent& event) {
        if (!event.has_progress()) return;
        watched_.losses.push_back(event.progress().loss());
      };
      if (job.has_progress()) {
        status = ReadEvents(inner_, job, add, &interrupted);
      }
    } else if (job.progress().step() != watched_.job.progress().step()) {
      watched_.losses.push_back(job.progress().loss());
    }
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE) return status;
    watched_.job = std::move(job);
    // The daemon takes longer to order a long queue.
    if (!is_new && queued == watched_.info.queued_jobs() &&
        ++polls_ % kPollsPerQueue != 0) {
      return grpc::Status::OK;
    }
    return Ask(&JobStub::Queue, v1::QueueRequest(), &watched_.queue);
  }

  void Draw() {
    std::ostream& out = console_.out;
    const Terminal& terminal = console_.terminal;
    // The screen's contents scroll into the terminal's history.
    if (!drawn_) out << std::string(terminal.rows(), '\n');
    drawn_ = true;
    drawn_size_ = Size();
    out << "\x1b[?7l\x1b[H";  // no line wraps into the next one
    for (const std::string& line : WatchScreen(
             watched_, {drawn_size_.first, drawn_size_.second, terminal.utf8,
                        terminal.clock->Now(), terminal.zone})) {
      out << line << "\x1b[K\r\n";
    }
    out << "\x1b[J\x1b[?7h" << std::flush;
  }

  const Console& console_;
  const absl::Duration patience_;
  Terminal terminal_;
  std::ostream nowhere_{nullptr};
  const bool on_screen_;
  const Console inner_;  // with those pauses; prints nothing next to a screen
  Interrupt::Listener listener_;
  Watched watched_;
  bool drawn_ = false;
  std::pair<int, int> drawn_size_;
  int polls_ = 0;
};

// The losses that a job's events report. Steps repeated after an interruption
// count as in their last run.
struct Losses {
  std::vector<LossPoint> steps;
  std::vector<LossPoint> evaluations;
  int resumes = 0;  // how often the job went back to an earlier step

  void Add(const v1::JobEvent& event) {
    const auto from = [](int64_t step) {
      return [step](const LossPoint& p) { return p.step >= step; };
    };
    if (event.has_progress()) {
      const int64_t step = event.progress().step();
      if (!steps.empty() && step <= steps.back().step) {
        ++resumes;
        std::erase_if(steps, from(step));
        std::erase_if(evaluations, from(step));
      }
      steps.push_back({step, event.progress().loss()});
    } else if (event.has_evaluated()) {
      const int64_t step = event.evaluated().step();
      std::erase_if(evaluations, from(step));
      evaluations.push_back({step, event.evaluated().eval_loss()});
    }
  }
};

// The chart's part of the job.
std::string Notes(const v1::Job& job, const Losses& losses) {
  const auto& points = losses.steps.empty() ? losses.evaluations : losses.steps;
  const auto number = [](int64_t n) { return Count(static_cast<double>(n)); };
  const int64_t first = points.front().step, last = points.back().step;
  std::string text =
      absl::StrCat("steps ", number(first), " to ", number(last));
  if (job.progress().total_steps() > 0) {
    absl::StrAppend(&text, " of ", number(job.progress().total_steps()));
  }
  absl::StrAppend(&text, ", ", StateName(job.state()));
  const int64_t there = std::ssize(losses.steps);
  if (there > 0 && there < last - first + 1) {
    absl::StrAppend(&text, "; mpsd has ", number(there),
                    " of them: it thins out old steps and very fast ones");
  }
  if (losses.resumes > 0) {
    absl::StrAppend(&text, "; went back to an earlier step ", losses.resumes,
                    losses.resumes == 1 ? " time" : " times",
                    ": the last values count");
  }
  int left_out = 0;
  for (const auto* kind : {&losses.steps, &losses.evaluations}) {
    for (const LossPoint& p : *kind) left_out += !std::isfinite(p.loss);
  }
  if (left_out > 0) {
    absl::StrAppend(&text, "; ", left_out, " left out: NaN or infinite");
  }
  return text;
}

ExitCode Plot(const std::string& text, const Console& console) {
  if (console.json) {
    return console.BadInput("plot does not print JSON",
                            "`mpsctl watch ID --json` has the job's losses.");
  }
  ExitCode code;
  const auto id = ResolveJobId(console, text, &code);
  if (!id) return code;
  v1::Job job;
  grpc::Status status = GetJob(console, *id, &job);
  if (!status.ok()) return console.Fail(status);
  Losses losses;
  // A job that has not ended and has nothing to draw yet is not waited for.
  if (IsFinal(job.state()) || !RowReached(job).Add({})) {
    bool interrupted = false;
    status = ReadEvents(
        console, job, [&](const v1::JobEvent& event) { losses.Add(event); },
        &interrupted);
    if (interrupted) return ExitCode::kDetached;
    if (!status.ok()) return console.Fail(status);
  }
  if (losses.steps.empty() && losses.evaluations.empty()) {
    return console.Fail(
        ExitCode::kNotFound,
        absl::StrCat("job ", job.id(), " (", StateName(job.state()),
                     ") has no step yet"),
        absl::StrCat(IsFinal(job.state())
                         ? "See how it ended with `mpsctl show "
                         : "Follow it with `mpsctl watch ",
                     job.id(), "`."));
  }
  // The last two lines are the note's and the shell's.
  for (const std::string& line :
       DrawLosses(absl::StrCat("loss by step, job ", job.id(), " ", job.name()),
                  losses.steps, losses.evaluations, console.terminal.columns(),
                  console.terminal.rows() - 2, console.terminal.utf8)) {
    console.out << line << '\n';
  }
  console.out << Notes(job, losses) << '\n';
  return ExitCode::kOk;
}

}  // namespace

ExitCode Follow(const Console& console, absl::Duration patience) {
  return Follower(console, patience).Run();
}

namespace {

// --- Wait --------------------------------------------------------------------

struct WaitOptions {
  std::vector<std::string> texts;
  bool any = false;
  std::string timeout;
  int64_t patience_seconds = 120;
};

// Seconds as "2.5", or a span as "30m"; infinite for "", nullopt for other
// text.
std::optional<absl::Duration> ParseTimeout(const std::string& text) {
  double seconds = 0;
  if (text.empty()) return absl::InfiniteDuration();
  if (absl::SimpleAtod(text, &seconds) && seconds >= 0) {
    return absl::Seconds(seconds);
  }
  return base::ParseSpan(text, "smhdw");
}

// Polls one job after the other until all, or any, have ended. A pause of ten
// times a round's duration follows each round, so that waiting for hundreds of
// jobs is no load.
class Waiter {
 public:
  Waiter(const Console& console, const WaitOptions& options,
         std::vector<std::string> ids)
      : console_(console),
        options_(options),
        waiting_(std::move(ids)),
        timeout_(*ParseTimeout(options.timeout)),
        start_(Now()),
        reconnect_(console, absl::Seconds(options.patience_seconds)) {}

  ExitCode Run() {
    while (true) {
      const absl::Duration before = Now();
      grpc::Status status = Round();
      if (status.ok() && IsOver()) return code_;
      if (!status.ok()) {
        if (!reconnect_.ShouldRetry(status)) return console_.Fail(status);
      } else if (!Pause(Now() - before)) {
        return TimedOut();
      }
    }
  }

 private:
  absl::Duration Now() const { return console_.terminal.clock->Monotonic(); }
  bool IsOver() const {
    return waiting_.empty() || (options_.any && ended_ > 0);
  }

  // Polls every job that is waited for.
  grpc::Status Round() {
    for (size_t i = 0; i < waiting_.size() && !IsOver();) {
      v1::Job job;
      grpc::Status status = GetJob(console_, waiting_[i], &job);
      if (!status.ok()) return status;
      reconnect_.Received();
      if (IsFinal(job.state())) {
        Ended(job);
        waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i));
        continue;
      }
      if (!warned_ && job.held()) WarnOfHold(job);
      ++i;
    }
    return grpc::Status::OK;
  }

  void Ended(const v1::Job& job) {
    ++ended_;
    // A FAILED job takes precedence over a CANCELLED one.
    const ExitCode code = ForJobState(job.state());
    if (code_ != ExitCode::kJobFailed && code != ExitCode::kOk) code_ = code;
    if (console_.json) {
      console_.PrintJson(job);
    } else {
      console_.out << "Job " << job.id() << ' ' << StateName(job.state());
      if (!job.message().empty()) {
        console_.out << ": " << Printable(job.message());
      }
      console_.out << '\n';
    }
    console_.out << std::flush;
  }

  void WarnOfHold(const v1::Job& job) {
    warned_ = true;
    console_.err << "mpsctl: job " << job.id() << " is held";
    if (!job.hold().empty()) {
      console_.err << " (" << Printable(job.hold()) << ')';
    }
    console_.err << ": it ends only after `mpsctl release " << job.id() << "`\n"
                 << std::flush;
  }

  // False if the time is up. `round`: how long the last round took.
  bool Pause(absl::Duration round) {
    const absl::Duration left = start_ + timeout_ - Now();
    if (left <= absl::ZeroDuration()) return false;
    console_.terminal.sleep(std::min(
        left, std::clamp(round * 10, absl::Seconds(1), absl::Seconds(30))));
    return true;
  }

  ExitCode TimedOut() const {
    return console_.Fail(
        ExitCode::kTryAgain,
        absl::StrCat(
            "after ", Seconds(timeout_), " ", waiting_.size(),
            " of the jobs had not ended: ", absl::StrJoin(waiting_, " ")),
        "");
  }

  const Console& console_;
  const WaitOptions& options_;
  std::vector<std::string> waiting_;  // ids of jobs that have not ended
  const absl::Duration timeout_;
  const absl::Duration start_;  // monotonic
  Reconnect reconnect_;
  int ended_ = 0;
  bool warned_ = false;
  ExitCode code_ = ExitCode::kOk;
};

ExitCode Wait(const WaitOptions& options, const Console& console) {
  ExitCode code = ExitCode::kOk;
  auto ids = ResolveJobIds(console, options.texts, &code);
  if (!ids) return code;
  return Waiter(console, options, *std::move(ids)).Run();
}

void DeclareWait(Command& verb, WaitOptions& options) {
  verb.add_argument(kJobIdName, options.texts, "The jobs");
  verb.add_flag("--any", options.any,
                "Return when the first has ended, with its code");
  verb.add_option("--timeout TIME", options.timeout,
                  "Give up after this long, with code 7: seconds, or 30m, 12h")
      ->check([](const std::string& text) -> std::string {
        if (!text.empty() && ParseTimeout(text)) return "";
        return "expected seconds, as 90, or a span, as 90s, 30m or 12h";
      });
  AddPatience(verb, options.patience_seconds);
}

// --- Logs --------------------------------------------------------------------

// Reads a log from `offset` on until `take` returns false.
grpc::Status ReadLog(const Console& console, const std::string& job_id,
                     int64_t offset,
                     const std::function<bool(const v1::LogChunk&)>& take) {
  v1::LogsRequest request;
  request.set_id(job_id);
  request.set_offset_bytes(offset);
  return console.daemon.Read(&JobStub::Logs, request, nullptr, take,
                             kCallPatience);
}

// Whether the log has a byte at `offset`. The API does not report a log's size.
grpc::Status Reaches(const Console& console, const std::string& job_id,
                     int64_t offset, bool* reaches) {
  *reaches = false;
  return ReadLog(console, job_id, offset, [&](const v1::LogChunk&) {
    *reaches = true;
    return false;
  });
}

// Finds a multiple of `step` that is within the log while the next one is not.
grpc::Status LastReached(const Console& console, const std::string& job_id,
                         int64_t step, int64_t* offset) {
  int64_t least = 0, beyond = 1;  // in steps
  grpc::Status status;
  for (bool reaches = true; status.ok() && reaches;) {
    status = Reaches(console, job_id, beyond * step, &reaches);
    if (reaches) least = beyond;
    if (reaches) beyond *= 2;
  }
  while (status.ok() && beyond - least > 1) {
    const int64_t middle = least + (beyond - least) / 2;
    bool reaches = false;
    status = Reaches(console, job_id, middle * step, &reaches);
    (reaches ? least : beyond) = middle;
  }
  *offset = least * step;
  return status;
}

}  // namespace

grpc::Status ReadLogTail(const Console& console, const std::string& job_id,
                         int64_t most_bytes, LogTail* tail) {
  const int64_t step = most_bytes / 2;
  int64_t offset = 0;
  grpc::Status status = LastReached(console, job_id, step, &offset);
  if (!status.ok()) return status;
  tail->before_bytes = offset > step ? offset - step : 0;
  // A running job's log grows meanwhile.
  status = ReadLog(
      console, job_id, tail->before_bytes, [&](const v1::LogChunk& chunk) {
        tail->text += chunk.data();
        return static_cast<int64_t>(tail->text.size()) < most_bytes;
      });
  tail->text.resize(
      std::min<size_t>(tail->text.size(), static_cast<size_t>(most_bytes)));
  if (tail->before_bytes > 0) {
    const size_t line = tail->text.find('\n') + 1;  // npos + 1 is 0
    tail->text.erase(0, line);
    tail->before_bytes += static_cast<int64_t>(line);
  }
  return status;
}

namespace {

// The number of last bytes that begin an incomplete UTF-8 character.
size_t CutOff(std::string_view text) {
  for (size_t i = 1; i <= 3 && i <= text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[text.size() - i]);
    if ((byte & 0xC0) == 0x80) continue;
    const size_t length = byte >= 0xF0   ? 4
                          : byte >= 0xE0 ? 3
                          : byte >= 0xC0 ? 2
                                         : 1;
    return length > i ? i : 0;
  }
  return 0;
}

// Prints log bytes: raw, with escapes for what would control a terminal, or
// each line as an object.
class LogPrinter {
 public:
  LogPrinter(const Console& console, bool raw)
      : console_(console), raw_(raw || !console.terminal.is_tty) {}
  void Print(const std::string& data) {
    if (!console_.json && raw_) {
      console_.out << data << std::flush;
      return;
    }
    rest_ += data;
    if (!console_.json) {
      const size_t whole = rest_.size() - CutOff(rest_);
      PrintClean(std::string_view(rest_).substr(0, whole));
      rest_.erase(0, whole);
      return;
    }
    size_t begin = 0;
    for (size_t end; (end = rest_.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      PrintLine(rest_.substr(begin, end - begin));
    }
    rest_.erase(0, begin);
  }

  // Prints the unfinished last line or character. Call it last.
  void Finish() {
    if (rest_.empty()) return;
    if (console_.json) {
      PrintLine(rest_);
    } else {
      PrintClean(rest_);
    }
  }

 private:
  void PrintClean(std::string_view text) {
    console_.out << base::Printable(text, base::Breaks::kKeep) << std::flush;
  }

  void PrintLine(const std::string& line) {
    const nlohmann::json object = {{"line", line}};
    const std::string text =
        object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    console_.out << (raw_ ? text : base::Printable(text)) << '\n' << std::flush;
  }

  const Console& console_;
  const bool raw_;
  std::string rest_;  // an unfinished line or character
};

class LogReader {
 public:
  LogReader(const Console& console, std::string id, bool follow, bool raw)
      : console_(console),
        follow_(follow),
        printer_(console, raw),
        reconnect_(console, absl::Minutes(2)) {
    request_.set_id(std::move(id));
    request_.set_follow(follow);
  }

  ExitCode Run() {
    const ExitCode code = ReadToTheEnd();
    printer_.Finish();
    return code;
  }

 private:
  ExitCode ReadToTheEnd() {
    while (true) {
      bool interrupted = false;
      grpc::Status status = Stream(&interrupted);
      if (interrupted) return ExitCode::kDetached;
      if (status.ok() && !follow_) return ExitCode::kOk;
      bool ended = false;
      if (status.ok()) status = HasEnded(&ended);
      if (ended) return ExitCode::kOk;
      if (!reconnect_.ShouldRetry(status)) return console_.Fail(status);
    }
  }

  grpc::Status Stream(bool* interrupted) {
    v1::LogsRequest request = request_;  // request_ advances
    return console_.daemon.Read(
        &JobStub::Logs, request, interrupted,
        [this](const v1::LogChunk& chunk) {
          if (follow_) reconnect_.Received();
          request_.set_offset_bytes(chunk.offset_bytes() +
                                    static_cast<int64_t>(chunk.data().size()));
          printer_.Print(chunk.data());
          return true;
        });
  }

  grpc::Status HasEnded(bool* ended) {
    v1::Job job;
    grpc::Status status = GetJob(console_, request_.id(), &job);
    *ended = status.ok() && IsFinal(job.state());
    return status;
  }

  const Console& console_;
  const bool follow_;
  v1::LogsRequest request_;
  LogPrinter printer_;
  Reconnect reconnect_;
};

struct LogsOptions {
  std::string id;
  bool follow = false;
  bool raw = false;
};

void DeclareLogs(Command& verb, LogsOptions& options) {
  verb.add_argument(kJobIdName, options.id, "The job");
  verb.add_flag("-f,--follow", options.follow,
                "Follow the log until the job ends");
  verb.add_flag("--raw", options.raw,
                "Print the raw bytes, even on a terminal");
}

ExitCode Logs(const LogsOptions& options, const Console& console) {
  ExitCode code;
  const auto id = ResolveJobId(console, options.id, &code);
  if (!id) return code;
  return LogReader(console, *id, options.follow, options.raw).Run();
}

}  // namespace

std::vector<Verb> WatchVerbs() {
  return {
      {"watch", "Follow a job until it ends; exit with its code",
       Takes(DeclareWatch, RunWatch),
       "mpsctl watch moods\n"
       "mpsctl watch    # whatever runs"},
      {"plot", "Draw a job's loss and eval loss", Takes(DeclareJob, Plot),
       "mpsctl plot @running"},
      {"wait", "Return when jobs have ended; 0 if all SUCCEEDED",
       Takes(DeclareWait, Wait), "mpsctl wait moods digits --timeout 12h"},
      {"logs", "Print a job's log", Takes(DeclareLogs, Logs),
       "mpsctl logs -f @running"},
  };
}

}  // namespace mpsd::client
