// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_NOTIFY_NOTIFIER_H_
#define MPSD_SERVER_NOTIFY_NOTIFIER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "server/jobs/job.h"
#include "server/jobs/job_store.h"
#include "server/jobs/pause_gate.h"
#include "server/notify/condition_watch.h"
#include "server/notify/delivery.h"
#include "server/notify/notice.h"
#include "server/notify/settings.h"

namespace mpsd::notify {

// Reports ends of jobs, holds and a low disk to the command of the settings.
// Its thread checks for news, and another runs the command, so that a receiver
// cannot affect the scheduler.
//
// The end of a job is delivered at least once: the store keeps the end until it
// is sent or given up, also across restarts. A hold or a low disk that lasts
// over a restart is reported again by the new mpsd.
class Notifier {
 public:
  struct Options {
    Sender sender;
    std::map<std::string, std::string> environment;  // mpsd's own
    CommandRunner run;
    // What the notifier polls, on its own thread.
    std::function<absl::StatusOr<jobs::Job>(const std::string& id)> job;
    std::function<jobs::Holds()> holds;
    std::function<std::optional<int64_t>()> free_bytes;
    absl::Duration interval = absl::Seconds(1);       // between two checks
    absl::Duration idle_interval = absl::Minutes(1);  // without a command
    NoticeQueue::Options queue;
  };

  // The dependencies must outlive the notifier.
  Notifier(Options options, Settings settings, jobs::EndedJobs& ends,
           const base::Clock& clock);
  // Interrupts deliveries in progress. Blocks for as long as the store does.
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

 private:
  void Run();
  void Look();
  void TakeEnds();
  void TakeEnd(const jobs::EndedJob& end);
  void WatchConditions();
  jobs::Job JobOf(const jobs::EndedJob& end) const;
  void Report(Notice notice, std::function<void()> done);

  const Options options_;
  const Settings settings_;
  jobs::EndedJobs& ends_;
  const base::Clock& clock_;

  absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  // Ends with which the queue is done, and that the store still has.
  std::set<int64_t> announced_ ABSL_GUARDED_BY(mutex_);

  std::unique_ptr<NoticeQueue> queue_;  // null without a command

  // The thread's own.
  int64_t last_end_ = 0;
  ConditionWatch conditions_;
  std::thread thread_;
};

// Sends the command of `settings`, which has one, a test, in one attempt.
// `environment`: mpsd's own.
Delivery SendTest(const Settings& settings, const Sender& sender,
                  const std::map<std::string, std::string>& environment,
                  const CommandRunner& run);

}  // namespace mpsd::notify

#endif  // MPSD_SERVER_NOTIFY_NOTIFIER_H_
