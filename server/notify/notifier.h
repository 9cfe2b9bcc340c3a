// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_NOTIFY_NOTIFIER_H_
#define MPSD_SERVER_NOTIFY_NOTIFIER_H_

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "server/jobs/ended_jobs.h"
#include "server/jobs/hold.h"
#include "server/jobs/job.h"
#include "server/notify/command_door.h"
#include "server/notify/condition_watch.h"
#include "server/notify/door.h"
#include "server/notify/door_queue.h"
#include "server/notify/notice.h"
#include "server/notify/settings.h"

namespace mpsd::notify {

// The doors that `settings` ask for. `environment`: mpsd's own.
std::vector<std::unique_ptr<Door>> OpenDoors(
    const Settings& settings,
    const std::map<std::string, std::string>& environment,
    const CommandRunner& run, const base::Clock& clock);

// Tells people of ends of jobs, of holds and of a low disk, through the doors
// that the settings name. A thread of its own looks for news, and each door has
// a thread, so that nothing that a receiver does reaches the scheduler.
//
// The end of a job is delivered at least once: the store keeps the end until
// each door has sent it or given it up, also across restarts. A hold or a low
// disk that lasts over a restart is told again by the new mpsd.
class Notifier {
 public:
  struct Options {
    Sender sender;
    std::map<std::string, std::string> environment;  // mpsd's own
    CommandRunner run;
    // What the notifier looks at, on its own thread.
    std::function<absl::StatusOr<jobs::Job>(const std::string& id)> job;
    std::function<jobs::Holds()> holds;
    std::function<std::optional<int64_t>()> free_bytes;
    absl::Duration interval = absl::Seconds(1);       // between two looks
    absl::Duration idle_interval = absl::Minutes(1);  // while there is no door
    DoorQueue::Options queue;
  };

  // The dependencies must outlive the notifier.
  Notifier(Options options, Settings settings, jobs::EndedJobs& ends,
           const base::Clock& clock);
  // Interrupts deliveries under way. Blocks for as long as the store does.
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  // Takes the place of the settings. What waits for a door goes on to the new
  // door of that name, or counts as dropped where none has the name.
  void SetSettings(Settings settings);

 private:
  void Run();
  void Look(const Settings& settings);
  void TakeEnds(const Settings& settings);
  void TakeEnd(const jobs::EndedJob& end, const Settings& settings);
  void WatchConditions(const Settings& settings);
  jobs::Job JobOf(const jobs::EndedJob& end) const;
  // Gives the notice to each door, and calls `done` once all are done with it.
  void Tell(const Notice& notice, const std::function<void()>& done);
  void OpenQueues(const Settings& settings)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(doors_mutex_);

  const Options options_;
  jobs::EndedJobs& ends_;
  const base::Clock& clock_;

  // A thread that holds this lock may take the other one.
  absl::Mutex doors_mutex_;
  Settings settings_ ABSL_GUARDED_BY(doors_mutex_);
  std::list<std::unique_ptr<DoorQueue>> queues_ ABSL_GUARDED_BY(doors_mutex_);

  absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;  // the settings
  // Ends with which all doors are done, and that the store still has.
  std::set<int64_t> announced_ ABSL_GUARDED_BY(mutex_);

  // The thread's own.
  int64_t last_end_ = 0;
  ConditionWatch conditions_;
  std::thread thread_;
};

// Sends a test through each door of `settings`, one try a door. Returns the
// name of each with how its delivery ended.
std::vector<std::pair<std::string, Delivery>> SendTest(
    const Settings& settings, const Sender& sender,
    const std::map<std::string, std::string>& environment,
    const CommandRunner& run, const base::Clock& clock);

}  // namespace mpsd::notify

#endif  // MPSD_SERVER_NOTIFY_NOTIFIER_H_
