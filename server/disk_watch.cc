// SPDX-License-Identifier: Apache-2.0
#include "server/disk_watch.h"

#include <algorithm>
#include <limits>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "core/base/file.h"

namespace mpsd {
namespace {

constexpr absl::Duration kEndPatience = absl::Milliseconds(500);
// The pause after a walk, as a multiple of its duration: a folder with very
// many files takes at most a twentieth of one core.
constexpr int kPauseOfWalk = 20;

int64_t Bounded(uintmax_t bytes) {
  constexpr uintmax_t kMost = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::min(bytes, kMost));
}

}  // namespace

// Everything that the thread uses, so that a hanging thread may outlive the
// DiskWatch.
class DiskWatch::Measurements {
 public:
  Measurements(Options options,
               std::shared_ptr<prometheus::DaemonMetrics> metrics)
      : options_(std::move(options)), metrics_(std::move(metrics)) {}

  void Stop() { stop_ = true; }

  // Returns the time of the next measurement.
  absl::Time Measure() {
    MeasureRoom();
    if (clock_.Monotonic() >= next_usage_) MeasureUsage();
    return absl::Now() + options_.room_interval;
  }

 private:
  void MeasureRoom() {
    const absl::StatusOr<Room> room = options_.measure_room(options_.state_dir);
    Note(room.status(), room_failing_);
    if (!room.ok()) return;
    metrics_->disk().SetRoom(room->free_bytes, room->size_bytes,
                             options_.room_interval + options_.grace);
  }

  void MeasureUsage() {
    const absl::Duration start = clock_.Monotonic();
    options_.folders->Begin();
    absl::StatusOr<StateUsage> usage =
        options_.measure_usage(options_.state_dir, stop_);
    const absl::Duration end = clock_.Monotonic();
    const absl::Duration pause =
        std::max(options_.usage_interval, kPauseOfWalk * (end - start));
    next_usage_ = end + pause;
    Note(usage.status(), usage_failing_);
    if (!usage.ok()) return;
    std::vector<jobs::FolderBytes> folders;
    folders.reserve(usage->by_job.size());
    for (auto& [id, folder] : usage->by_job) {
      folders.push_back(std::move(folder));
    }
    options_.folders->Set(usage->TotalBytes(), folders);
    metrics_->disk().SetBytes(std::move(usage->by_kind),
                              pause + options_.grace);
  }

  // Logs the first of consecutive errors.
  void Note(const absl::Status& status, bool& failing) {
    if (!status.ok() && !failing && !stop_) {
      options_.log(absl::StrCat("the metrics of the disk: ", status.message()));
    }
    failing = !status.ok();
  }

  const Options options_;
  const std::shared_ptr<prometheus::DaemonMetrics> metrics_;
  const base::Clock& clock_ = base::Clock::Real();
  std::atomic<bool> stop_ = false;
  // Used only by the ticker's thread.
  absl::Duration next_usage_ = -absl::InfiniteDuration();  // monotonic
  bool room_failing_ = false, usage_failing_ = false;
};

DiskWatch::DiskWatch(Options options,
                     std::shared_ptr<prometheus::DaemonMetrics> metrics)
    : measurements_(std::make_shared<Measurements>(std::move(options),
                                                   std::move(metrics))),
      ticker_(std::make_shared<Ticker>()) {
  ticker_->Start(
      [measurements = measurements_] { return measurements->Measure(); });
}

DiskWatch::~DiskWatch() {
  measurements_->Stop();
  // A detached thread joins the ticker's, which may hang.
  auto ended = std::make_shared<absl::Notification>();
  std::thread([ticker = std::move(ticker_), ended] {
    ticker->Stop();
    ended->Notify();
  }).detach();
  ended->WaitForNotificationWithTimeout(kEndPatience);
}

absl::StatusOr<DiskWatch::Room> DiskWatch::MeasureRoom(
    const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::space_info space =
      std::filesystem::space(folder, error);
  if (error) return base::ErrnoStatus(error.value(), folder.string());
  return Room{Bounded(space.available), Bounded(space.capacity)};
}

}  // namespace mpsd
