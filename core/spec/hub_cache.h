// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_HUB_CACHE_H_
#define MPSD_CORE_SPEC_HUB_CACHE_H_

#include <string>

#include "absl/status/statusor.h"

namespace mpsd::spec {

// The Hugging Face cache of this process' environment, as FindModelFolder
// (train_spec.h) has it; the folder need not exist.
std::string HubCacheFolder();

// The snapshot of a model id in it; NotFound as FindModelFolder's. A folder of
// that name is left alone.
absl::StatusOr<std::string> FindInHubCache(const std::string& id);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_HUB_CACHE_H_
