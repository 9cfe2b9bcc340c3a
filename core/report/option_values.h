// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_REPORT_OPTION_VALUES_H_
#define MPSD_CORE_REPORT_OPTION_VALUES_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "core/host/traits.h"

namespace mpsd::runbook {

// Fields of a study's options, which are a message as JSON: a field without
// presence is omitted if it is 0. Errors are InvalidArgument: "<field>: must be
// <what is allowed>, is <what was given>".

// The field's value, or `unset` if it is 0 or omitted.
absl::StatusOr<int64_t> IntOption(const nlohmann::json& options,
                                  const char* field, int64_t unset, int64_t min,
                                  int64_t max);
absl::StatusOr<double> NumberOption(const nlohmann::json& options,
                                    const char* field, double unset, double min,
                                    double max);

// The value of a field with presence, where 0 is an ordinary value; nullopt if
// the field is omitted.
absl::StatusOr<std::optional<int64_t>> IntIfThere(const nlohmann::json& options,
                                                  const char* field,
                                                  int64_t min, int64_t max);

// The device of that name, "cpu", "cuda" or "mps".
absl::StatusOr<backend::Choice> DeviceNamed(const std::string& field,
                                            const nlohmann::json& name);

// The error for a value of `field` that is not allowed.
absl::Status NotAllowed(const std::string& field, const std::string& allowed,
                        const nlohmann::json& given);

}  // namespace mpsd::runbook

#endif  // MPSD_CORE_REPORT_OPTION_VALUES_H_
