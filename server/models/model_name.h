// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_MODELS_MODEL_NAME_H_
#define MPSD_SERVER_MODELS_MODEL_NAME_H_

#include <string>

#include "absl/status/status.h"

namespace mpsd::models {

// Checks what job.json calls a model, "name" or "org/name", as
// proto/mpsd/v1/models.proto states it. InvalidArgument, beginning with
// `field`.
absl::Status CheckModelName(const std::string& field, const std::string& name);

// Checks a branch, a tag or a commit of a hub: 1 to limits::kModelIdBytes
// letters, digits, '.', '_', '-' and '/', of which no part between slashes is
// empty or begins with a '.'. InvalidArgument, beginning with `field`.
absl::Status CheckRevision(const std::string& field,
                           const std::string& revision);

// What two names share that a file system which ignores case takes for one.
std::string FoldedName(const std::string& name);

}  // namespace mpsd::models

#endif  // MPSD_SERVER_MODELS_MODEL_NAME_H_
