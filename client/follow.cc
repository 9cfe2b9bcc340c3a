// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/event_reader.h"
#include "client/reconnect.h"
#include "client/text/format.h"
#include "client/text/watch_screen.h"
#include "client/watch.h"

namespace mpsd::client {
namespace {

constexpr absl::Duration kBetweenPolls = absl::Seconds(1);
constexpr absl::Duration kBetweenLooks = absl::Milliseconds(100);
constexpr int kPollsPerQueue = 5;

// Follows the job that runs, and then the next one. Changes no mode of the
// terminal, so that none is left when it ends, however it ends.
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
    // Ctrl-C ends a pause, and a resize is drawn in it.
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
  using ScreenSize = std::pair<int, int>;

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
      switch (const ExitCode code = Watch(inner_, options)) {
        case ExitCode::kOk:
        case ExitCode::kJobFailed:
        case ExitCode::kJobCancelled:
          break;
        default:
          return code;
      }
    }
    return Stopped();
  }

  bool stopped() const { return listener_.raised(); }
  ScreenSize Size() const {
    return {console_.terminal.columns(), console_.terminal.rows()};
  }

  ExitCode Stopped() const {
    console_.err << "mpsctl: stopped watching; jobs go on.\n";
    return ExitCode::kDetached;
  }

  // One call, which Ctrl-C breaks off. A daemon that hangs is as one that is
  // away.
  template <typename Call>
  grpc::Status Ask(Call call) {
    grpc::ClientContext context;
    SetDeadline(context);
    Interrupt::Listener listener(console_.terminal.interrupt,
                                 [&context] { context.TryCancel(); });
    if (listener.raised()) context.TryCancel();
    grpc::Status status = call(&context);
    if (status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED) {
      return status;
    }
    return {grpc::StatusCode::UNAVAILABLE, "mpsd did not answer in time"};
  }

  // The job that runs; without an id where none does.
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

  // Asks for what the screen shows.
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
    // The order of a long queue takes the daemon longer.
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
    // What the screen shows moves up and stays in the terminal's history.
    if (!drawn_) out << std::string(terminal.rows(), '\n');
    drawn_ = true;
    drawn_size_ = Size();
    out << "\x1b[?7l\x1b[H";  // no line goes on in the next one
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
  const Console inner_;  // with those pauses; says nothing beside a screen
  Interrupt::Listener listener_;
  Watched watched_;
  bool drawn_ = false;
  ScreenSize drawn_size_;
  int polls_ = 0;
};

}  // namespace

ExitCode Follow(const Console& console, absl::Duration patience) {
  return Follower(console, patience).Run();
}

}  // namespace mpsd::client
