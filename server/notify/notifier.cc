// SPDX-License-Identifier: Apache-2.0
#include "server/notify/notifier.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/notify/webhook_door.h"

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

std::vector<std::unique_ptr<Door>> OpenDoors(
    const Settings& settings,
    const std::map<std::string, std::string>& environment,
    const CommandRunner& run, const base::Clock& clock) {
  std::vector<std::unique_ptr<Door>> doors;
  if (!settings.webhook.empty()) {
    WebhookDoor::Options options;
    options.url = settings.webhook;
    options.secret = settings.webhook_secret;
    options.ca_file = settings.webhook_ca_file;
    doors.push_back(std::make_unique<WebhookDoor>(std::move(options), clock));
  }
  CommandDoor::Options options;
  options.environment = environment;
  if (settings.desktop) {
    doors.push_back(std::make_unique<DesktopDoor>(options, run));
  }
  if (!settings.command.empty()) {
    options.argv = settings.command;
    doors.push_back(std::make_unique<CommandDoor>(std::move(options), run));
  }
  return doors;
}

Notifier::Notifier(Options options, Settings settings, jobs::EndedJobs& ends,
                   const base::Clock& clock)
    : options_(std::move(options)), ends_(ends), clock_(clock) {
  {
    absl::MutexLock lock(&doors_mutex_);
    settings_ = std::move(settings);
    OpenQueues(settings_);
  }
  thread_ = std::thread([this] { Run(); });
}

Notifier::~Notifier() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  thread_.join();
  absl::MutexLock lock(&doors_mutex_);
  queues_.clear();
}

void Notifier::OpenQueues(const Settings& settings) {
  for (std::unique_ptr<Door>& door :
       OpenDoors(settings, options_.environment, options_.run, clock_)) {
    queues_.push_back(
        std::make_unique<DoorQueue>(options_.queue, std::move(door), clock_));
  }
}

void Notifier::SetSettings(Settings settings) {
  absl::MutexLock lock(&doors_mutex_);
  if (settings == settings_) return;
  std::list<std::unique_ptr<DoorQueue>> before = std::exchange(queues_, {});
  settings_ = std::move(settings);
  OpenQueues(settings_);
  for (const std::unique_ptr<DoorQueue>& old : before) {
    const auto heir =
        std::find_if(queues_.begin(), queues_.end(), [&](const auto& queue) {
          return std::strcmp(queue->door_name(), old->door_name()) == 0;
        });
    for (DoorQueue::Entry& entry : old->Stop()) {
      if (heir != queues_.end()) {
        (*heir)->Put(std::move(entry));
      } else {
        options_.queue.count(old->door_name(), Result::kDropped);
        entry.done();
      }
    }
  }
  absl::MutexLock news(&mutex_);
  changed_ = true;
}

void Notifier::Run() {
  bool stopped = false;
  std::optional<Settings> before;
  while (!stopped) {
    Settings settings;
    {
      absl::MutexLock lock(&doors_mutex_);
      settings = settings_;
    }
    // A door that opens now is not told what happened before.
    if (before && !before->HasDoor()) TakeEnds(*before);
    before = settings;
    Look(settings);
    absl::MutexLock lock(&mutex_);
    const auto roused = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return stopped_ || changed_;
    };
    mutex_.AwaitWithTimeout(
        absl::Condition(&roused),
        settings.HasDoor() ? options_.interval : options_.idle_interval);
    changed_ = false;
    stopped = stopped_;
  }
}

void Notifier::Look(const Settings& settings) {
  TakeEnds(settings);
  // Without a door nothing is told, and a door that comes later is told what
  // lasts then.
  if (settings.HasDoor()) WatchConditions(settings);
  std::set<int64_t> announced;
  {
    absl::MutexLock lock(&mutex_);
    announced = announced_;
  }
  for (int64_t number : announced) {
    // The store keeps the end where it cannot be written: the next look tries
    // again.
    if (!ends_.Forget(number).ok()) return;
    absl::MutexLock lock(&mutex_);
    announced_.erase(number);
  }
}

void Notifier::TakeEnds(const Settings& settings) {
  while (true) {
    const absl::StatusOr<std::vector<jobs::EndedJob>> ends =
        ends_.After(last_end_, kMostEnds);
    // The scheduler tells people of the store's faults.
    if (!ends.ok() || ends->empty()) return;
    for (const jobs::EndedJob& end : *ends) TakeEnd(end, settings);
  }
}

void Notifier::TakeEnd(const jobs::EndedJob& end, const Settings& settings) {
  last_end_ = end.number;
  const auto done = [this, number = end.number] {
    absl::MutexLock lock(&mutex_);
    announced_.insert(number);
  };
  if (settings.HasDoor() && settings.topics.contains(TopicOf(end.state))) {
    Tell(EndNotice(options_.sender, end, JobOf(end)), done);
  } else {
    done();
  }
}

jobs::Job Notifier::JobOf(const jobs::EndedJob& end) const {
  absl::StatusOr<jobs::Job> job = options_.job(end.job_id);
  return job.ok() ? *std::move(job) : jobs::Job();
}

void Notifier::WatchConditions(const Settings& settings) {
  const std::vector<ConditionWatch::Change> changes = conditions_.Observe(
      {options_.holds(), options_.free_bytes()},
      {settings.low_disk_bytes, settings.settle}, clock_.Monotonic());
  for (const ConditionWatch::Change& change : changes) {
    const Topic topic = change.hold ? Topic::kHold : Topic::kLowDisk;
    if (!settings.topics.contains(topic)) continue;
    Tell(change.hold
             ? HoldNotice(options_.sender, *change.hold, change.why,
                          clock_.Now())
             : DiskNotice(options_.sender, change.began, change.free_bytes,
                          settings.low_disk_bytes, clock_.Now()),
         [] {});
  }
}

void Notifier::Tell(const Notice& notice, const std::function<void()>& done) {
  absl::MutexLock lock(&doors_mutex_);
  if (queues_.empty()) return done();
  const auto left = std::make_shared<std::atomic<size_t>>(queues_.size());
  for (const std::unique_ptr<DoorQueue>& queue : queues_) {
    DoorQueue::Entry entry;
    entry.notice = notice;
    entry.done = [left, done] {
      if (--*left == 0) done();
    };
    queue->Put(std::move(entry));
  }
}

std::vector<std::pair<std::string, Delivery>> SendTest(
    const Settings& settings, const Sender& sender,
    const std::map<std::string, std::string>& environment,
    const CommandRunner& run, const base::Clock& clock) {
  std::vector<std::pair<std::string, Delivery>> results;
  for (const std::unique_ptr<Door>& door :
       OpenDoors(settings, environment, run, clock)) {
    results.emplace_back(door->name(),
                         door->Deliver(TestNotice(sender, clock.Now())));
  }
  return results;
}

}  // namespace mpsd::notify
