// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_FIELD_EDIT_H_
#define MPSD_CORE_SPEC_FIELD_EDIT_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"

// Changes fields of a job.json, each named by its path:
// "training.learning_rate". Whether job.json has such a field is not looked at
// here: that is ParseTrainSpec's. Errors are InvalidArgument and do not repeat
// the field.
namespace mpsd::spec {

// The value that people write for a field: JSON, or else a text as it stands.
nlohmann::ordered_json FieldValue(const std::string& text);

// Sets a field, and makes the objects around it that are not there.
absl::Status SetField(nlohmann::ordered_json& spec, const std::string& field,
                      nlohmann::ordered_json value);

// Takes a field out.
absl::Status UnsetField(nlohmann::ordered_json& spec, const std::string& field);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_FIELD_EDIT_H_
