// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_LONGEST_SAMPLES_H_
#define MPSD_CORE_STUDY_LONGEST_SAMPLES_H_

#include <cstdint>
#include <vector>

#include "core/data/source.h"

namespace mpsd::study {

// The `count` longest samples of `source`, from long to short, all of them
// again and again where there are fewer.
std::vector<int64_t> LongestSamples(const data::Source& source, int64_t count);

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_LONGEST_SAMPLES_H_
