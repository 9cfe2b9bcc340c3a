// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_LOADER_TIMES_H_
#define MPSD_CORE_STUDY_LOADER_TIMES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/batch.h"
#include "core/data/loader.h"

namespace mpsd::study {

// A training's data without its steps.
struct LoaderTimes {
  std::vector<double> seconds;       // to make the batches of a step
  std::vector<std::string> samples;  // DigestOfSamples of each step, in order
};

// Times the second `steps` steps of the data, since images of the first may be
// decoded and cached already; then makes the first for `samples`. Calls `go_on`
// before each step; false: Cancelled. Other errors are the source's.
absl::StatusOr<LoaderTimes> TimeLoader(const data::Source& source,
                                       const data::LoaderOptions& options,
                                       int64_t steps,
                                       const std::function<bool()>& go_on);

// The first digits of a SHA-256 over the samples of one optimizer step: their
// tokens, labels, classes, targets and pixels. Their arrangement in rows,
// padding and order within the step do not matter: the gradient is the same.
std::string DigestOfSamples(const std::vector<data::Batch>& step);

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_LOADER_TIMES_H_
