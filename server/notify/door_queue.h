// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_NOTIFY_DOOR_QUEUE_H_
#define MPSD_SERVER_NOTIFY_DOOR_QUEUE_H_

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/report/report.h"
#include "server/notify/door.h"

namespace mpsd::notify {

// How a notice left the queue of its door: a label of metrics.
enum class Result { kSent, kFailed, kDropped };
inline constexpr report::EnumName<Result> kResults[] = {
    {Result::kSent, "sent"},
    {Result::kFailed, "failed"},
    {Result::kDropped, "dropped"}};

// The notices that wait for one door, and the thread that delivers them, each
// until it is sent, refused or too old. A notice that has to wait for its next
// try holds up no other. Thread-safe.
class DoorQueue {
 public:
  struct Options {
    size_t most_waiting = 256;  // a notice beyond is dropped
    // The wait after a first failed try; it doubles with each further one.
    absl::Duration first_wait = absl::Seconds(1);
    absl::Duration longest_wait = absl::Minutes(10);
    // From a notice's own time on; every notice is tried once at least.
    absl::Duration patience = absl::Hours(24);
    std::function<void(const std::string&)> log = [](const std::string&) {};
    // Called once for each notice that leaves the queue. The functions are
    // called on any thread, without a lock, and must not block.
    std::function<void(const char* door, Result)> count = [](const char*,
                                                             Result) {};
  };
  struct Entry {
    Notice notice;
    // Called when the notice has left the queue, whatever the result.
    std::function<void()> done = [] {};
    absl::Duration next_try = -absl::InfiniteDuration();  // monotonic
    int tries = 0;
  };

  // `clock` must outlive the queue.
  DoorQueue(Options options, std::unique_ptr<Door> door,
            const base::Clock& clock);
  // Interrupts the door. What waits is neither counted nor done.
  ~DoorQueue() { Stop(); }
  DoorQueue(const DoorQueue&) = delete;
  DoorQueue& operator=(const DoorQueue&) = delete;

  // Never blocks.
  void Put(Entry entry);
  // Ends the thread, and returns what was not delivered.
  std::list<Entry> Stop();
  const char* door_name() const { return door_->name(); }

 private:
  void Run();
  // Waits for the next notice that is due; nullopt once the queue stops.
  std::optional<Entry> Next();
  void Finish(const Entry& entry, Result result);
  absl::Duration WaitAfter(int tries, const Delivery& delivery) const;

  const Options options_;
  const std::unique_ptr<Door> door_;
  const base::Clock& clock_;
  absl::Mutex mutex_;
  std::list<Entry> waiting_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace mpsd::notify

#endif  // MPSD_SERVER_NOTIFY_DOOR_QUEUE_H_
