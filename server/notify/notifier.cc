// SPDX-License-Identifier: Apache-2.0
#include "server/notify/notifier.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "server/supervisor/spawned_process.h"

namespace mpsd::notify {

namespace {

constexpr size_t kMostOutput = 4096;

bool SigpipeIsIgnored() {
  struct sigaction action;
  return sigaction(SIGPIPE, nullptr, &action) == 0 &&
         action.sa_handler == SIG_IGN;
}

}  // namespace

absl::StatusOr<CommandEnd> RunCommand(const CommandCall& call,
                                      const std::atomic<bool>& interrupted) {
  base::Check(SigpipeIsIgnored(), "the process ignores SIGPIPE");
  supervisor::SpawnedProcess::Options options;
  options.program = call.argv[0];
  options.args.assign(call.argv.begin() + 1, call.argv.end());
  options.environment = call.environment;
  CommandEnd end;
  supervisor::Exchange exchange;
  exchange.input = call.input;
  // A program with endless output cannot fill the memory.
  exchange.out = [&](std::string_view bytes) {
    end.output.append(bytes.substr(0, kMostOutput - end.output.size()));
    return absl::OkStatus();
  };
  exchange.wanted = [&] {
    return interrupted ? absl::DeadlineExceededError("") : absl::OkStatus();
  };
  exchange.limit = call.timeout;
  const absl::StatusOr<int> status =
      supervisor::RunToEnd(std::move(options), exchange);
  end.timed_out = absl::IsDeadlineExceeded(status.status());
  if (end.timed_out) return end;
  ASSIGN_OR_RETURN(end.wait_status, status);
  return end;
}

namespace {

constexpr int kTemporaryFailure = 75;  // sysexits.h: EX_TEMPFAIL

// Whether a program that shows a notice needs the variable. No other is passed
// on: mpsd's own environment may hold tokens.
bool IsKept(std::string_view name) {
  for (const char* kept : {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG",
                           "TZ", "TMPDIR", "DISPLAY", "WAYLAND_DISPLAY",
                           "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"}) {
    if (name == kept) return true;
  }
  return absl::StartsWith(absl::string_view(name.data(), name.size()), "LC_");
}

Delivery Judge(const CommandEnd& end) {
  std::string why;
  if (end.timed_out) {
    why = "did not end in time and was killed";
  } else if (WIFSIGNALED(end.wait_status)) {
    why = absl::StrCat("ended by signal ", WTERMSIG(end.wait_status));
  } else if (WEXITSTATUS(end.wait_status) == 0) {
    return Delivery::Sent();
  } else {
    why = absl::StrCat("exit status ", WEXITSTATUS(end.wait_status));
  }
  if (!end.output.empty()) {
    absl::StrAppend(&why, ": ", base::Quotable(end.output));
  }
  const bool temporary = !end.timed_out && WIFEXITED(end.wait_status) &&
                         WEXITSTATUS(end.wait_status) == kTemporaryFailure;
  return temporary ? Delivery::Later(std::move(why))
                   : Delivery::Refused(std::move(why));
}

}  // namespace

Delivery Command::Deliver(const Notice& notice) {
  if (interrupted_) return Delivery::Later("mpsd stops");
  CommandCall call;
  call.argv = options_.argv;
  for (const auto& [name, value] : options_.environment) {
    if (IsKept(name)) call.environment[name] = value;
  }
  call.environment["MPSD_EVENT"] = notice.event;
  call.environment["MPSD_TITLE"] = notice.title;
  call.environment["MPSD_TEXT"] = notice.text;
  call.input = notice.body;
  call.timeout = options_.timeout;
  const absl::StatusOr<CommandEnd> end = run_(call, interrupted_);
  if (!end.ok()) return Delivery::Later(std::string(end.status().message()));
  if (interrupted_ && end->timed_out) return Delivery::Later("mpsd stops");
  return Judge(*end);
}

namespace {

// The most ends that are read at once.
constexpr int kMostEnds = 100;

}  // namespace

Notifier::Notifier(Options options, Settings settings, jobs::EndedJobs& ends,
                   const base::Clock& clock)
    : options_(std::move(options)),
      settings_(std::move(settings)),
      ends_(ends),
      clock_(clock) {
  if (!settings_.command.empty()) {
    Command::Options command;
    command.argv = settings_.command;
    command.environment = options_.environment;
    command_.emplace(std::move(command), options_.run);
  }
  thread_ = std::thread([this] { Run(); });
}

Notifier::~Notifier() {
  {
    base::MonitorLock lock(&mutex_);
    stopped_ = true;
  }
  if (command_) command_->Interrupt();
  thread_.join();
}

void Notifier::Run() {
  for (bool stopped = false; !stopped;) {
    TakeEnds();
    DeliverDue();
    ForgetDone();
    base::MonitorLock lock(&mutex_);
    const auto stops = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return stopped_;
    };
    stopped = mutex_.AwaitFor(
        command_ ? options_.interval : options_.idle_interval, stops);
  }
}

void Notifier::TakeEnds() {
  while (waiting_.size() < options_.most_waiting) {
    const absl::StatusOr<std::vector<jobs::EndedJob>> ends =
        ends_.After(last_end_, kMostEnds);
    // The scheduler reports the store's faults.
    if (!ends.ok() || ends->empty()) return;
    for (const jobs::EndedJob& end : *ends) {
      last_end_ = end.number;
      if (!command_ || !settings_.topics.contains(end.state)) {
        done_.insert(end.number);
        continue;
      }
      const jobs::Job job = options_.job(end.job_id).value_or(jobs::Job());
      waiting_.push_back({end.number, EndNotice(options_.sender, end, job)});
    }
  }
}

void Notifier::DeliverDue() {
  for (auto one = waiting_.begin(); one != waiting_.end() && !stopped();) {
    if (one->next_try > clock_.Monotonic() || !Deliver(*one)) {
      ++one;
      continue;
    }
    done_.insert(one->end);
    one = waiting_.erase(one);
    ForgetDone();
  }
}

bool Notifier::Deliver(Waiting& waiting) {
  const Delivery delivery = command_->Deliver(waiting.notice);
  if (delivery.outcome == Delivery::Outcome::kSent) {
    options_.count(Result::kSent);
    return true;
  }
  if (stopped()) return false;
  const absl::Duration wait = WaitAfter(++waiting.tries);
  const bool again =
      delivery.outcome == Delivery::Outcome::kLater &&
      clock_.Now() + wait < waiting.notice.time + options_.patience;
  // One line at the first failure and one at the last: a receiver that is down
  // for a day fails a hundred times.
  if (!again || waiting.tries == 1) {
    options_.log(
        absl::StrCat("notify-command: notification ", waiting.notice.id,
                     again ? " is not delivered yet: " : " is not delivered: ",
                     delivery.why));
  }
  if (!again) options_.count(Result::kFailed);
  waiting.next_try = clock_.Monotonic() + wait;
  return !again;
}

// The store keeps the end if it cannot be written: the next check tries again.
void Notifier::ForgetDone() {
  while (!done_.empty() && ends_.Forget(*done_.begin()).ok()) {
    done_.erase(done_.begin());
  }
}

absl::Duration Notifier::WaitAfter(int tries) const {
  absl::Duration wait = options_.first_wait;
  for (int i = 1; i < tries && wait < options_.longest_wait; ++i) wait *= 2;
  return std::min(wait, options_.longest_wait);
}

Delivery SendTest(const Settings& settings, const Sender& sender,
                  const std::map<std::string, std::string>& environment,
                  const CommandRunner& run) {
  Command::Options options;
  options.argv = settings.command;
  options.environment = environment;
  return Command(std::move(options), run)
      .Deliver(TestNotice(sender, base::Clock::Real().Now()));
}

}  // namespace mpsd::notify
