// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

namespace mpsd::spec {

// The JSON Schema (draft 2020-12) of job.json, made from the fields that
// ParseTrainSpec reads: type, default, words, bounds and a description of each,
// in the order of ToJson. A field whose default is absent has no "default".
//
// It accepts everything that ParseTrainSpec accepts, and rejects a field
// exactly where ParseTrainSpec does, with two exceptions that a schema cannot
// express: 8.0 and integers beyond 64 bits are integers to JSON Schema but not
// to ParseTrainSpec. The schema also accepts combinations of fields, and
// names, that ParseTrainSpec rejects.
nlohmann::ordered_json JobSchema();

}  // namespace mpsd::spec
