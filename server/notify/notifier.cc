// SPDX-License-Identifier: Apache-2.0
#include "server/notify/notifier.h"

#include <utility>

namespace mpsd::notify {
namespace {

// The most ends that are read at once.
constexpr int kMostEnds = 100;

Topic TopicOf(jobs::State state) {
  switch (state) {
    case jobs::State::kSucceeded:
      return Topic::kSucceeded;
    case jobs::State::kCancelled:
      return Topic::kCancelled;
    default:
      return Topic::kFailed;
  }
}

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
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  thread_.join();
  queue_.reset();
}

void Notifier::Run() {
  for (bool stopped = false; !stopped;) {
    Look();
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(
        absl::Condition(&stopped_),
        queue_ != nullptr ? options_.interval : options_.idle_interval);
    stopped = stopped_;
  }
}

void Notifier::Look() {
  TakeEnds();
  if (queue_ != nullptr) WatchConditions();
  std::set<int64_t> announced;
  {
    absl::MutexLock lock(&mutex_);
    announced = announced_;
  }
  for (int64_t number : announced) {
    // The store keeps the end if it cannot be written: the next check tries
    // again.
    if (!ends_.Forget(number).ok()) return;
    absl::MutexLock lock(&mutex_);
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
    absl::MutexLock lock(&mutex_);
    announced_.insert(number);
  };
  if (queue_ != nullptr && settings_.topics.contains(TopicOf(end.state))) {
    Report(EndNotice(options_.sender, end, JobOf(end)), done);
  } else {
    done();
  }
}

jobs::Job Notifier::JobOf(const jobs::EndedJob& end) const {
  absl::StatusOr<jobs::Job> job = options_.job(end.job_id);
  return job.ok() ? *std::move(job) : jobs::Job();
}

void Notifier::WatchConditions() {
  const std::vector<ConditionWatch::Change> changes = conditions_.Observe(
      {options_.holds(), options_.free_bytes()},
      {settings_.low_disk_bytes, settings_.settle}, clock_.Monotonic());
  for (const ConditionWatch::Change& change : changes) {
    const Topic topic = change.hold ? Topic::kHold : Topic::kLowDisk;
    if (!settings_.topics.contains(topic)) continue;
    Report(change.hold
               ? HoldNotice(options_.sender, *change.hold, change.why,
                            clock_.Now())
               : DiskNotice(options_.sender, change.began, change.free_bytes,
                            settings_.low_disk_bytes, clock_.Now()),
           [] {});
  }
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
