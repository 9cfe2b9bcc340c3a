// SPDX-License-Identifier: Apache-2.0
#include "core/study/loader_times.h"

#include "core/base/clock.h"
#include "core/base/work_count.h"
#include "core/study/step_samples.h"

namespace mpsd::study {

absl::StatusOr<LoaderTimes> TimeLoader(const data::Source& source,
                                       const data::LoaderOptions& options,
                                       int64_t steps,
                                       const std::function<bool()>& go_on) {
  data::Loader loader(source, options);
  const int64_t per_epoch = loader.steps_per_epoch();
  loader.Seek({steps / per_epoch, steps % per_epoch});
  LoaderTimes times;
  for (int64_t i = 0; i < 2 * steps; ++i) {
    if (i == steps) loader.Seek({0, 0});
    if (!go_on()) return absl::CancelledError("stopped");
    const absl::Duration start = base::Clock::Real().Monotonic();
    const auto batches = loader.NextStep();
    if (!batches.ok()) return batches.status();
    if (i < steps) {
      times.seconds.push_back(
          absl::ToDoubleSeconds(base::Clock::Real().Monotonic() - start));
    } else {
      times.samples.push_back(DigestOfSamples(*batches));
    }
    base::CountWork();
  }
  return times;
}

}  // namespace mpsd::study
