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

// The machine may sleep while the thread waits, so the thread checks the clock
// at least this often.
constexpr absl::Duration kLongestNap = absl::Minutes(1);

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

NoticeQueue::NoticeQueue(Options options, Command::Options command,
                         CommandRunner run, const base::Clock& clock)
    : options_(std::move(options)),
      command_(std::move(command), std::move(run)),
      clock_(clock) {
  thread_ = std::thread([this] { Run(); });
}

void NoticeQueue::Put(Entry entry) {
  {
    base::MonitorLock lock(&mutex_);
    if (waiting_.size() < options_.most_waiting) {
      waiting_.push_back(std::move(entry));
      changed_ = true;
      return;
    }
  }
  options_.log(absl::StrCat("notify-command: notification ", entry.notice.id,
                            " dropped: ", options_.most_waiting, " wait"));
  Finish(entry, Result::kDropped);
}

std::list<NoticeQueue::Entry> NoticeQueue::Stop() {
  {
    base::MonitorLock lock(&mutex_);
    stopped_ = true;
  }
  command_.Interrupt();
  if (thread_.joinable()) thread_.join();
  base::MonitorLock lock(&mutex_);
  return std::exchange(waiting_, {});
}

std::optional<NoticeQueue::Entry> NoticeQueue::Next() {
  base::MonitorLock lock(&mutex_);
  while (!stopped_) {
    changed_ = false;
    const auto next = std::min_element(
        waiting_.begin(), waiting_.end(),
        [](const Entry& a, const Entry& b) { return a.next_try < b.next_try; });
    absl::Duration nap = kLongestNap;
    if (next != waiting_.end()) {
      const absl::Duration left = next->next_try - clock_.Monotonic();
      if (left <= absl::ZeroDuration()) {
        Entry entry = std::move(*next);
        waiting_.erase(next);
        return entry;
      }
      nap = std::min(nap, left);
    }
    const auto roused = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return changed_ || stopped_;
    };
    mutex_.AwaitFor(nap, roused);
  }
  return std::nullopt;
}

void NoticeQueue::Run() {
  while (std::optional<Entry> entry = Next()) {
    const Delivery delivery = command_.Deliver(entry->notice);
    if (delivery.outcome == Delivery::Outcome::kSent) {
      Finish(*entry, Result::kSent);
      continue;
    }
    {
      base::MonitorLock lock(&mutex_);
      if (stopped_) {
        waiting_.push_front(*std::move(entry));
        return;
      }
    }
    const absl::Duration wait = WaitAfter(++entry->tries);
    const bool again =
        delivery.outcome == Delivery::Outcome::kLater &&
        clock_.Now() + wait < entry->notice.time + options_.patience;
    // One line at the first failure and one at the last: a receiver that is
    // down for a day fails a hundred times.
    if (!again || entry->tries == 1) {
      options_.log(absl::StrCat(
          "notify-command: notification ", entry->notice.id,
          again ? " is not delivered yet: " : " is not delivered: ",
          delivery.why));
    }
    if (!again) {
      Finish(*entry, Result::kFailed);
      continue;
    }
    entry->next_try = clock_.Monotonic() + wait;
    base::MonitorLock lock(&mutex_);
    waiting_.push_back(*std::move(entry));
  }
}

absl::Duration NoticeQueue::WaitAfter(int tries) const {
  absl::Duration wait = options_.first_wait;
  for (int i = 1; i < tries && wait < options_.longest_wait; ++i) wait *= 2;
  return std::min(wait, options_.longest_wait);
}

void NoticeQueue::Finish(const Entry& entry, Result result) {
  options_.count(result);
  entry.done();
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
    queue_ = std::make_unique<NoticeQueue>(options_.queue, std::move(command),
                                           options_.run, clock_);
  }
  thread_ = std::thread([this] { Run(); });
}

Notifier::~Notifier() {
  {
    base::MonitorLock lock(&mutex_);
    stopped_ = true;
  }
  thread_.join();
  queue_.reset();
}

void Notifier::Run() {
  for (bool stopped = false; !stopped;) {
    Look();
    base::MonitorLock lock(&mutex_);
    const auto stops = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return stopped_;
    };
    stopped = mutex_.AwaitFor(
        queue_ != nullptr ? options_.interval : options_.idle_interval, stops);
  }
}

void Notifier::Look() {
  TakeEnds();
  std::set<int64_t> announced;
  {
    base::MonitorLock lock(&mutex_);
    announced = announced_;
  }
  for (int64_t number : announced) {
    // The store keeps the end if it cannot be written: the next check tries
    // again.
    if (!ends_.Forget(number).ok()) return;
    base::MonitorLock lock(&mutex_);
    announced_.erase(number);
  }
}

void Notifier::TakeEnds() {
  while (true) {
    const absl::StatusOr<std::vector<jobs::EndedJob>> ends =
        ends_.After(last_end_, kMostEnds);
    // The scheduler reports the store's faults.
    if (!ends.ok() || ends->empty()) return;
    for (const jobs::EndedJob& end : *ends) TakeEnd(end);
  }
}

void Notifier::TakeEnd(const jobs::EndedJob& end) {
  last_end_ = end.number;
  const auto done = [this, number = end.number] {
    base::MonitorLock lock(&mutex_);
    announced_.insert(number);
  };
  if (queue_ != nullptr && settings_.topics.contains(end.state)) {
    Report(EndNotice(options_.sender, end, JobOf(end)), done);
  } else {
    done();
  }
}

jobs::Job Notifier::JobOf(const jobs::EndedJob& end) const {
  absl::StatusOr<jobs::Job> job = options_.job(end.job_id);
  return job.ok() ? *std::move(job) : jobs::Job();
}

void Notifier::Report(Notice notice, std::function<void()> done) {
  NoticeQueue::Entry entry;
  entry.notice = std::move(notice);
  entry.done = std::move(done);
  queue_->Put(std::move(entry));
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
