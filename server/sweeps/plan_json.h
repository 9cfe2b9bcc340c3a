// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SWEEPS_PLAN_JSON_H_
#define MPSD_SERVER_SWEEPS_PLAN_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "server/sweeps/sweep.h"

namespace mpsd::sweeps {

// A plan as the store keeps it, and as a request's hash has it. The same plan
// is the same text.
std::string EncodePlan(const Plan& plan);
// DataLoss for what is no plan.
absl::StatusOr<Plan> DecodePlan(const std::string& json);

// A child's values, as JSON texts, in one text.
std::string EncodeValues(const std::vector<std::string>& values);
absl::StatusOr<std::vector<std::string>> DecodeValues(const std::string& json);

}  // namespace mpsd::sweeps

#endif  // MPSD_SERVER_SWEEPS_PLAN_JSON_H_
