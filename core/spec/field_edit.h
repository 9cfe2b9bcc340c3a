// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_FIELD_EDIT_H_
#define MPSD_CORE_SPEC_FIELD_EDIT_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"

// Changes fields of a job.json, each named by its path:
// "training.learning_rate". ParseTrainSpec, not these functions, checks whether
// job.json has such a field. Errors are InvalidArgument and do not repeat the
// field.
namespace mpsd::spec {

// The value of a field as users type it: JSON, or else plain text.
nlohmann::ordered_json FieldValue(const std::string& text);

// Sets a field, creating missing objects around it.
absl::Status SetField(nlohmann::ordered_json& spec, const std::string& field,
                      nlohmann::ordered_json value);

// Removes a field.
absl::Status UnsetField(nlohmann::ordered_json& spec, const std::string& field);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_FIELD_EDIT_H_
