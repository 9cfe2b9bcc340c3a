// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_TRAIN_SPEC_RULES_H_
#define MPSD_CORE_SPEC_TRAIN_SPEC_RULES_H_

#include "core/spec/findings.h"
#include "core/spec/json_node.h"
#include "core/spec/train_spec.h"

namespace mpsd::spec {

// Adds to `findings` the faults of combinations of fields that are valid
// individually. `root` is the JSON that `spec` was read from.
void CheckRules(const TrainSpec& spec, const JsonNode& root,
                Findings& findings);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_TRAIN_SPEC_RULES_H_
