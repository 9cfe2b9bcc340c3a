// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_STEP_SAMPLES_H_
#define MPSD_CORE_STUDY_STEP_SAMPLES_H_

#include <string>
#include <vector>

#include "core/data/batch.h"

namespace mpsd::study {

// The first digits of a SHA-256 over the samples of one optimizer step: their
// tokens, labels, classes, targets and pixels. How a device has them laid into
// rows, padded and ordered within the step does not matter: the gradient is the
// same.
std::string DigestOfSamples(const std::vector<data::Batch>& step);

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_STEP_SAMPLES_H_
