// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_PROFILE_RESULT_H_
#define MPSD_CORE_STUDY_PROFILE_RESULT_H_

#include <nlohmann/json.hpp>

#include "core/study/profile_facts.h"

namespace mpsd::study {

// The message ProfileResult of proto/mpsd/v1/profile.proto.
nlohmann::json ProfileResult(const ProfileFacts& facts);

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_PROFILE_RESULT_H_
