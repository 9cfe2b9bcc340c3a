// SPDX-License-Identifier: Apache-2.0
#include "client/watch.h"

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/event_printer.h"
#include "client/job_id.h"
#include "client/text/format.h"
#include "client/text/watch_screen.h"
#include "client/verbs.h"

namespace mpsd::client {

namespace {

class Watcher {
 public:
  Watcher(const Console& console, const WatchOptions& options)
      : console_(console),
        options_(options),
        last_(options.after_sequence),
        printer_(console),
        reconnect_(console, options.patience) {}

  ExitCode Run() {
    while (true) {
      bool interrupted = false;
      grpc::Status status = Stream(&interrupted);
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
    grpc::ClientContext context;
    Interrupt::Listener listener(console_.terminal.interrupt,
                                 [&context] { context.TryCancel(); });
    if (listener.raised()) context.TryCancel();
    v1::WatchRequest request;
    request.set_id(options_.id);
    request.set_after_sequence(last_);
    auto reader = console_.daemon.jobs().Watch(&context, request);
    v1::JobEvent event;
    while (reader->Read(&event)) {
      reconnect_.Received();
      last_ = event.sequence();
      printer_.Print(event);
      if (options_.last_sequence != nullptr && WaitsAgain(event)) {
        context.TryCancel();
      }
    }
    grpc::Status status = reader->Finish();
    *interrupted = listener.raised();
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
    console_.err << "mpsctl: stopped watching; job " << options_.id
                 << " keeps running.\n"
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
    return absl::StrCat("mpsctl watch ", options_.id, " --after ", last_);
  }

  const Console& console_;
  const WatchOptions options_;
  int64_t last_;
  bool waits_again_ = false;
  EventPrinter printer_;
  Reconnect reconnect_;
};

}  // namespace

ExitCode Watch(const Console& console, const WatchOptions& options) {
  return Watcher(console, options).Run();
}

void AddWatch(Command& app, Action* action) {
  struct Options {
    std::string id;
    int64_t after = 0;
    int64_t patience_seconds = 120;
  };
  auto options = std::make_shared<Options>();
  Command* verb = app.add_subcommand(
      "watch", "Follow a job until it ends; exit with its code");
  Option* id = verb->add_option(kJobIdName, options->id,
                                "The job; without one, all that run, one after "
                                "the other, until Ctrl-C")
                   ->type_name("");
  verb->add_option("--after", options->after,
                   "Leave out the events up to this sequence number")
      ->type_name("SEQUENCE")
      ->needs(id);
  verb->add_option("--patience", options->patience_seconds,
                   "How long to wait for a daemon that is unreachable")
      ->type_name("SECONDS")
      ->capture_default_str();
  verb->callback([=] {
    *action = [=](const Console& console) {
      const absl::Duration patience = absl::Seconds(options->patience_seconds);
      if (!id->given()) return Follow(console, patience);
      ExitCode code;
      auto id = ResolveJobId(console, options->id, &code);
      if (!id) return code;
      return Watch(console, {*id, options->after, patience});
    };
  });
}

namespace {

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
    console_.err << "mpsctl: stopped watching; jobs keep running.\n";
    return ExitCode::kDetached;
  }

  // One call, which Ctrl-C aborts. A daemon that hangs counts as unreachable.
  template <typename Call>
  grpc::Status Ask(Call call) {
    grpc::ClientContext context;
    SetDeadline(context);
    Interrupt::Listener listener(console_.terminal.interrupt,
                                 [&context] { context.TryCancel(); });
    if (listener.raised()) context.TryCancel();
    grpc::Status status = call(&context);
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
    grpc::Status status = Ask([&](grpc::ClientContext* context) {
      return console_.daemon.jobs().List(context, request, &response);
    });
    if (!response.jobs().empty()) *job = response.jobs(0);
    return status;
  }

  // Fetches what the screen shows.
  grpc::Status Poll() {
    v1::Job job;
    grpc::Status status = Running(&job);
    const int64_t queued = watched_.info.queued_jobs();
    if (status.ok()) {
      status = Ask([&](grpc::ClientContext* context) {
        return console_.daemon.daemon().Info(context, {}, &watched_.info);
      });
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
    return Ask([&](grpc::ClientContext* context) {
      return console_.daemon.jobs().Queue(context, {}, &watched_.queue);
    });
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

ExitCode Plot(const Console& console, const std::string& text) {
  if (console.json) {
    return console.Fail(ExitCode::kBadInput, "plot does not print JSON",
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

void AddPlot(Command& app, Action* action) {
  auto id = std::make_shared<std::string>();
  Command* verb = app.add_subcommand("plot", "Draw a job's loss and eval loss");
  verb->add_option(kJobIdName, *id, "The job")->required()->type_name("");
  verb->callback([=] {
    *action = [=](const Console& console) { return Plot(console, *id); };
  });
}

}  // namespace mpsd::client
