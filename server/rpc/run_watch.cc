// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/run_watch.h"

#include <algorithm>
#include <cmath>

#include "core/host/host.h"

namespace mpsd::records {
namespace {

// Recent steps in the reported median.
constexpr size_t kSteps = 101;
// Sums of attempts that wait for a store that cannot be written.
constexpr size_t kMostEnded = 1000;
// Recent input within this time means that the machine is in use.
constexpr double kActiveSeconds = 60;
// Between two readings the machine may have slept.
constexpr absl::Duration kLongestGap = absl::Minutes(1);

void SetTime(absl::Time time, google::protobuf::Timestamp* stamp) {
  stamp->set_seconds(absl::ToUnixSeconds(time));
  stamp->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(
      time - absl::FromUnixSeconds(stamp->seconds()))));
}

double Median(std::deque<double> values) {
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <typename Levels, typename Names>
void AddNames(const Levels& levels, Names* names) {
  for (const auto& level : levels) names->Add(std::string(host::Name(level)));
}

}  // namespace

std::vector<SeenAttempt> RunWatch::TakeChanged(bool now) {
  absl::MutexLock lock(&mutex_);
  std::vector<SeenAttempt> rows(std::make_move_iterator(ended_.begin()),
                                std::make_move_iterator(ended_.end()));
  ended_.clear();
  const absl::Duration time = clock_.Monotonic();
  if (current_ && changed_ && (now || time - given_at_ >= options_.interval)) {
    rows.push_back(RowOfCurrent());
    changed_ = false;
    given_at_ = time;
  }
  return rows;
}

void RunWatch::Return(std::vector<SeenAttempt> rows) {
  absl::MutexLock lock(&mutex_);
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    const bool goes_on = current_ && current_->job_id == row->job_id &&
                         current_->start == row->start;
    if (goes_on) {
      changed_ = true;
      given_at_ = -absl::InfiniteDuration();
      continue;
    }
    const bool superseded = std::any_of(
        ended_.begin(), ended_.end(), [&](const SeenAttempt& other) {
          return other.job_id == row->job_id && other.start == row->start;
        });
    if (!superseded && ended_.size() < kMostEnded) {
      ended_.push_front(std::move(*row));
    }
  }
}

SeenAttempt RunWatch::RowOfCurrent() const {
  const Attempt& attempt = *current_;
  v1::RunAttempt sum = attempt.sum;
  v1::RunDurations& durations = *sum.mutable_durations();
  const auto spent = attempt.phases.Spent(clock_.Monotonic());
  const auto seconds = [&](jobs::Phase phase) {
    const auto found = spent.find(phase);
    return found == spent.end() ? 0 : absl::ToDoubleSeconds(found->second);
  };
  // The duration of loading is unknown until a step or an evaluation has
  // arrived.
  if (sum.steps() > 0) {
    durations.set_load_seconds(seconds(jobs::Phase::kLoad));
    durations.set_train_seconds(seconds(jobs::Phase::kTrain));
    durations.set_data_wait_seconds(seconds(jobs::Phase::kDataWait));
  }
  if (const double s = seconds(jobs::Phase::kEvaluate); s > 0) {
    durations.set_evaluation_seconds(s);
  }
  if (const double s = seconds(jobs::Phase::kSave); s > 0) {
    durations.set_save_seconds(s);
  }
  if (!attempt.steps.empty()) {
    durations.set_steady_step_seconds(Median(attempt.steps));
  }
  v1::RunConditions& seen = *sum.mutable_conditions();
  AddNames(attempt.power, seen.mutable_power_sources());
  AddNames(attempt.thermal, seen.mutable_thermal_levels());
  AddNames(attempt.pressure, seen.mutable_memory_pressures());
  if (attempt.utilization_count > 0) {
    seen.set_gpu_utilization_ratio(attempt.utilization_sum /
                                   attempt.utilization_count);
  }
  return {attempt.job_id, attempt.start, std::move(sum)};
}

void RunWatch::CountPause() {
  Attempt& attempt = *current_;
  if (!attempt.paused_since) return;
  const absl::Duration now = clock_.Monotonic();
  const double seconds = absl::ToDoubleSeconds(now - *attempt.paused_since);
  attempt.paused_since = now;
  v1::RunPauses& pauses = *attempt.sum.mutable_pauses();
  pauses.set_seconds(pauses.seconds() + seconds);
  for (const jobs::PauseReason reason : attempt.paused_for) {
    (*pauses.mutable_seconds_by_reason())[std::string(jobs::Name(reason))] +=
        seconds;
  }
}

void RunWatch::Finish() {
  if (ended_.size() < kMostEnded) ended_.push_back(RowOfCurrent());
  current_.reset();
  changed_ = false;
}

void RunWatch::JobCounts(const std::map<jobs::State, int64_t>& jobs) {
  next_.JobCounts(jobs);
}

void RunWatch::QueueChanged(const jobs::QueueDepth& depth) {
  next_.QueueChanged(depth);
}

void RunWatch::JobStarted(const jobs::StartedJob& job) {
  next_.JobStarted(job);
  absl::MutexLock lock(&mutex_);
  if (current_) Finish();
  current_.emplace(job.id, clock_.Now(), clock_.Monotonic());
  v1::RunAttempt& sum = current_->sum;
  SetTime(current_->start, sum.mutable_start_time());
  sum.set_torch_version(options_.torch_version);
  sum.set_daemon_version(options_.version);
  sum.set_daemon_commit(options_.commit);
  sum.mutable_durations()->set_queue_seconds(
      absl::ToDoubleSeconds(job.queue_wait));
  changed_ = true;
  given_at_ = -absl::InfiniteDuration();
}

void RunWatch::DeviceOpened(const std::string& job_id,
                            const std::string& device) {
  next_.DeviceOpened(job_id, device);
  absl::MutexLock lock(&mutex_);
  if (!current_) return;
  current_->sum.set_device(device);
  changed_ = true;
}

void RunWatch::StageBegan(const std::string& stage) {
  next_.StageBegan(stage);
  absl::MutexLock lock(&mutex_);
  if (current_) current_->phases.Staged(stage, clock_.Monotonic());
}

void RunWatch::WorkerHalts(bool halts) {
  next_.WorkerHalts(halts);
  absl::MutexLock lock(&mutex_);
  if (!current_ || halts == current_->paused_since.has_value()) return;
  const absl::Duration now = clock_.Monotonic();
  if (halts) {
    v1::RunPauses& pauses = *current_->sum.mutable_pauses();
    pauses.set_count(pauses.count() + 1);
    current_->paused_since = now;
    current_->paused_for = reasons_;
    current_->phases.Halted(now);
  } else {
    CountPause();
    current_->paused_since.reset();
    current_->phases.Resumed(now);
  }
  changed_ = true;
}

void RunWatch::StepFinished(const std::string& job_id,
                            const jobs::Progress& progress) {
  next_.StepFinished(job_id, progress);
  absl::MutexLock lock(&mutex_);
  if (!current_) return;
  v1::RunAttempt& sum = current_->sum;
  current_->phases.Stepped(progress, clock_.Monotonic());
  if (sum.steps() == 0) {
    sum.mutable_durations()->set_first_step_seconds(progress.seconds);
  } else if (std::isfinite(progress.seconds)) {
    current_->steps.push_back(progress.seconds);
    if (current_->steps.size() > kSteps) current_->steps.pop_front();
  }
  sum.set_steps(sum.steps() + 1);
  sum.set_device(progress.device);
  // 0 where the worker could not read it.
  if (const auto& bytes = progress.memory.footprint_bytes;
      bytes.value_or(0) > 0) {
    sum.set_peak_footprint_bytes(std::max(sum.peak_footprint_bytes(), *bytes));
  }
  changed_ = true;
}

void RunWatch::Evaluated(const std::string& job_id, const std::string& device,
                         const jobs::Evaluated& evaluated) {
  next_.Evaluated(job_id, device, evaluated);
  absl::MutexLock lock(&mutex_);
  if (!current_) return;
  current_->phases.Evaluated(evaluated.seconds, clock_.Monotonic());
  changed_ = true;
}

void RunWatch::CheckpointWritten(const std::string& job_id,
                                 const std::string& device, double seconds) {
  next_.CheckpointWritten(job_id, device, seconds);
  absl::MutexLock lock(&mutex_);
  if (!current_) return;
  current_->phases.Saved(seconds, clock_.Monotonic());
  changed_ = true;
}

void RunWatch::WorkerExited(jobs::ExitReason reason) {
  next_.WorkerExited(reason);
  absl::MutexLock lock(&mutex_);
  if (!current_) return;
  CountPause();
  current_->sum.set_exit_reason(std::string(jobs::Name(reason)));
  SetTime(clock_.Now(), current_->sum.mutable_end_time());
  Finish();
}

void RunWatch::JobReturned(jobs::ExitReason reason) {
  next_.JobReturned(reason);
}

void RunWatch::HostRead(const host::Reading& reading) {
  next_.HostRead(reading);
  absl::MutexLock lock(&mutex_);
  if (!current_) return;
  const absl::Duration now = clock_.Monotonic();
  const absl::Duration gap =
      std::min(now - current_->read_at.value_or(now), kLongestGap);
  current_->read_at = now;
  v1::RunConditions& seen = *current_->sum.mutable_conditions();
  seen.set_readings(seen.readings() + 1);
  if (reading.power_source) current_->power.insert(*reading.power_source);
  if (reading.thermal) current_->thermal.insert(*reading.thermal);
  if (reading.memory_pressure) {
    current_->pressure.insert(*reading.memory_pressure);
  }
  if (reading.battery_ratio) {
    seen.set_least_battery_ratio(
        seen.has_least_battery_ratio()
            ? std::min(seen.least_battery_ratio(), *reading.battery_ratio)
            : *reading.battery_ratio);
  }
  if (reading.low_power_mode) {
    seen.set_low_power_mode(seen.low_power_mode() || *reading.low_power_mode);
  }
  if (reading.swap_used_bytes) {
    const int64_t swap = *reading.swap_used_bytes;
    if (!seen.has_first_swap_bytes()) seen.set_first_swap_bytes(swap);
    seen.set_most_swap_bytes(std::max(seen.most_swap_bytes(), swap));
  }
  if (reading.user_idle_seconds) {
    const bool active = *reading.user_idle_seconds < kActiveSeconds;
    seen.set_user_active_seconds(seen.user_active_seconds() +
                                 (active ? absl::ToDoubleSeconds(gap) : 0));
  }
  if (reading.gpu_utilization_ratio) {
    current_->utilization_sum += *reading.gpu_utilization_ratio;
    ++current_->utilization_count;
  }
  if (reading.gpu_resets) {
    if (!current_->first_resets) current_->first_resets = reading.gpu_resets;
    seen.set_gpu_resets(*reading.gpu_resets - *current_->first_resets);
  }
  changed_ = true;
}

void RunWatch::Paused(const jobs::PauseReasons& reasons) {
  next_.Paused(reasons);
  absl::MutexLock lock(&mutex_);
  reasons_ = reasons;
  // A worker that resumes a moment after the last reason is over was held for
  // that reason.
  if (!current_ || !current_->paused_since || reasons.empty()) return;
  CountPause();
  current_->paused_for = reasons;
  changed_ = true;
}

void RunWatch::Held(const jobs::Holds& holds) { next_.Held(holds); }

void RunWatch::JobEnded(const std::string& job_id, jobs::State state) {
  next_.JobEnded(job_id, state);
  options_.on_end();
}

void RunWatch::JobDeleted(const std::string& job_id) {
  next_.JobDeleted(job_id);
}

}  // namespace mpsd::records
