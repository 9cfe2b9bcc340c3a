// SPDX-License-Identifier: Apache-2.0
#include "core/study/step_parts.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <span>
#include <utility>

#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/base/work_count.h"
#include "core/data/loader.h"
#include "core/device/step_scope.h"

namespace mpsd::study {
namespace {

constexpr absl::Duration kLongest = absl::Seconds(20);  // for a part
// The loader's thread has made these ahead: their data are in caches.
constexpr int64_t kStepsAhead = 2;
constexpr size_t kKeptSteps = 6;  // the first of them warms up

// How many steps the loader can be timed for. In the first epoch it stops at
// the end: the samples after it were already read by the run, and decoded
// images are cached.
int64_t StepsToMake(const data::Loader& loader, int64_t steps) {
  const data::Cursor at = loader.cursor();
  const int64_t left = loader.steps_per_epoch() - at.step_in_epoch;
  const int64_t wanted = steps + kStepsAhead;
  return at.epoch == 0 && left > kStepsAhead ? std::min(wanted, left) : wanted;
}

absl::Duration Now() { return base::Clock::Real().Monotonic(); }

absl::Status CheckStop(train::Observer& observer) {
  base::CountWork();
  if (observer.stop_request() == train::StopRequest::kNone) {
    return absl::OkStatus();
  }
  return absl::CancelledError("stopped while a part of a step was timed");
}

}  // namespace

absl::StatusOr<BatchTimes> TimeBatches(train::Prepared& run, int64_t steps,
                                       train::Observer& observer) {
  // Seek ends the thread that makes batches ahead.
  run.loader->Seek(run.loader->cursor());
  data::Loader loader(*run.loaded.data.train,
                      run.loaded.shapes().TrainOptions(run.micro_batch_rows));
  loader.Seek(run.loader->cursor());
  BatchTimes times;
  const int64_t most = StepsToMake(loader, steps);
  const absl::Duration begin = Now();
  for (int64_t i = 0; i < most && Now() - begin < kLongest; ++i) {
    RETURN_IF_ERROR(CheckStop(observer));
    const absl::Duration start = Now();
    ASSIGN_OR_RETURN(auto batches, loader.NextStep());
    if (i >= kStepsAhead) {
      times.seconds.push_back(absl::ToDoubleSeconds(Now() - start));
    }
    if (times.batches.size() < kKeptSteps) {
      times.batches.push_back(std::move(batches));
    }
  }
  return times;
}

absl::StatusOr<std::vector<double>> TimeForward(
    train::Prepared& run, const std::vector<std::vector<data::Batch>>& batches,
    train::Observer& observer) {
  const train::TrainingSubject subject = run.loaded.subject();
  at::NoGradGuard no_grad;
  subject.trainable.set_training(false);
  subject.network.set_training(false);
  std::vector<double> seconds;
  const absl::Duration begin = Now();
  for (size_t i = 0; i < batches.size() && Now() - begin < kLongest; ++i) {
    double step = 0;
    for (const data::Batch& batch : batches[i]) {
      RETURN_IF_ERROR(CheckStop(observer));
      const device::StepScope scope;
      const train::StepInputs inputs =
          subject.pipeline.Inputs({&batch, 1}, subject.device);
      subject.device.Synchronize();
      const absl::Duration start = Now();
      for (const train::BatchInputs& input : inputs.batches) {
        const train::BatchLoss loss = subject.pipeline.Loss(input);
      }
      subject.device.Synchronize();
      step += absl::ToDoubleSeconds(Now() - start);
    }
    if (i > 0 || batches.size() == 1) seconds.push_back(step);
  }
  return seconds;
}

}  // namespace mpsd::study
