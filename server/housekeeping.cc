// SPDX-License-Identifier: Apache-2.0
#include "server/housekeeping.h"

#include <algorithm>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "server/jobs/job_deletion.h"

namespace mpsd {
namespace {

// The wall clock may jump while the thread waits, so it checks the time at
// least this often.
constexpr absl::Duration kLongestNap = absl::Minutes(1);

}  // namespace

void Ticker::Start(std::function<absl::Time()> tick) {
  base::Check(!thread_.joinable(), "Start is called once");
  tick_ = std::move(tick);
  thread_ = std::thread([this] { Run(); });
}

void Ticker::Run() {
  while (true) {
    const absl::Time next = tick_();
    const absl::Duration nap = std::min(next - absl::Now(), kLongestNap);
    base::MonitorLock lock(&mutex_);
    ++ticks_;
    const auto roused = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return woken_ || stopped_;
    };
    mutex_.AwaitFor(nap, roused);
    if (stopped_) return;
    woken_ = false;
  }
}

void Ticker::WakeUp() {
  base::MonitorLock lock(&mutex_);
  woken_ = true;
}

bool Ticker::Await(const std::function<bool()>& done, absl::Duration timeout) {
  const base::Clock& clock = base::Clock::Real();
  const absl::Duration deadline = clock.Monotonic() + timeout;
  int64_t seen = -1;
  while (true) {
    {
      base::MonitorLock lock(&mutex_);
      const auto ticked = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return ticks_ != seen || stopped_;
      };
      const bool in_time =
          mutex_.AwaitFor(deadline - clock.Monotonic(), ticked);
      if (stopped_ || !in_time) return false;
      seen = ticks_;
    }
    if (done()) return true;
  }
}

void Ticker::Stop() {
  {
    base::MonitorLock lock(&mutex_);
    stopped_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

namespace {

// How long the folder of an interrupted submission is kept: it is small, and a
// database restored after a repair may know the job.
constexpr absl::Duration kSubmissionGrace = absl::Hours(1);

jobs::Collector::Options CollectorOptions(
    const Housekeeping::Options& options) {
  jobs::Collector::Options made;
  made.fresh = options.fresh;
  made.log = options.log;
  made.rules = [limits = options.limits](const std::string& owner) {
    return limits == nullptr ? jobs::KeepRules() : limits->Of(owner).keep;
  };
  made.keeps_all = [limits = options.limits] {
    return limits == nullptr || limits->KeepsAll();
  };
  if (options.metrics != nullptr) {
    made.count = [metrics = options.metrics](jobs::Collected kind,
                                             int64_t count, int64_t bytes) {
      metrics->Collected(kind, count, bytes);
    };
  }
  return made;
}

}  // namespace

Housekeeping::Housekeeping(Options options,
                           jobs::Collector::Dependencies dependencies)
    : options_(std::move(options)),
      collector_(CollectorOptions(options_), dependencies) {
  collector_.SetBudget(options_.budget_bytes);
  if (options_.metrics != nullptr) {
    options_.metrics->SetBudget(options_.budget_bytes);
  }
}

void Housekeeping::Start(jobs::JobStore& store) {
  absl::StatusOr<jobs::Leftovers> found =
      jobs::FindLeftovers(options_.jobs_dir, store, kSubmissionGrace);
  if (!found.ok()) {
    options_.log(absl::StrCat("looking for leftovers of an earlier mpsd: ",
                              found.status().message()));
    found = jobs::Leftovers();
  }
  garbage_ = std::move(found->garbage);
  if (!garbage_.empty()) {
    options_.log(absl::StrCat("removing ", garbage_.size(),
                              " leftovers of an earlier mpsd in ",
                              options_.jobs_dir.string()));
  }
  for (const std::string& id : found->unknown) {
    options_.log(absl::StrCat((options_.jobs_dir / id).string(),
                              " holds results of a job that the database does "
                              "not know: it stays"));
  }
  ticker_.Start([this] { return Tidy(); });
}

void Housekeeping::SweepModels() {
  const absl::StatusOr<int> swept = options_.sweep_models();
  if (!swept.ok()) {
    options_.log(absl::StrCat("removing models that were replaced: ",
                              swept.status().message()));
  } else if (*swept > 0) {
    options_.log(
        absl::StrCat("removed revisions of models that no job has: ", *swept));
  }
}

void Housekeeping::TendBallast() {
  const std::filesystem::path path = jobs::BallastPath(options_.jobs_dir);
  const absl::StatusOr<DiskWatch::Room> room =
      DiskWatch::MeasureRoom(path.parent_path());
  if (!room.ok()) return;
  const bool has = jobs::KeepBallast(path, room->free_bytes) > 0;
  if (!has && has_ballast_) {
    options_.log(absl::StrCat(
        path.parent_path().string(), ": ", room->free_bytes,
        " bytes are free, too few to reserve some in ", path.string(),
        ": on a full disk no job can be cancelled or deleted; free space"));
  }
  has_ballast_ = has;
}

absl::Time Housekeeping::Tidy() {
  jobs::RemoveLeftovers(std::exchange(garbage_, {}));
  TendBallast();
  const absl::Duration between = std::clamp(
      options_.blob_grace / 4, absl::Milliseconds(250), absl::Hours(1));
  const absl::Duration now = base::Clock::Real().Monotonic();
  if (now >= next_blobs_) {
    // Before the blobs, which their links keep.
    SweepModels();
    collector_.TendBlobs();
    next_blobs_ = now + between;
  }
  collector_.Tend([this] {
    return stopping_ ? absl::CancelledError("mpsd stops") : absl::OkStatus();
  });
  return absl::Now() + std::min(between, options_.interval);
}

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
  auto ended = std::make_shared<base::Event>();
  std::thread([ticker = std::move(ticker_), ended] {
    ticker->Stop();
    ended->Set();
  }).detach();
  ended->AwaitFor(kEndPatience);
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
