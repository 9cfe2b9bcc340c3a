// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_HUB_CACHE_H_
#define MPSD_CORE_SPEC_HUB_CACHE_H_

#include <string>

#include "absl/status/statusor.h"

namespace mpsd::spec {

// The Hugging Face cache that this process' environment names, by the rules of
// FindModelFolder (train_spec.h); the folder need not exist.
std::string HubCacheFolder();

// The snapshot of a model id in that cache; NotFound as FindModelFolder's. A
// local folder of the same name is ignored.
absl::StatusOr<std::string> FindInHubCache(const std::string& id);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_HUB_CACHE_H_
