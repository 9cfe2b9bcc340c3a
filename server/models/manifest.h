// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_MODELS_MANIFEST_H_
#define MPSD_SERVER_MODELS_MANIFEST_H_

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace mpsd::models {

// The model.json of a pushed model: which revision its name has.
struct Manifest {
  std::string name, owner, revision;
  int64_t size_bytes = 0;
  absl::Time create_time;
};

// NotFound without the file; DataLoss, naming it, where it is none.
absl::StatusOr<Manifest> ReadManifest(const std::filesystem::path& folder);
// Replaces the file as a whole, durably.
absl::Status WriteManifest(const std::filesystem::path& folder,
                           const Manifest& manifest);
// Durably; OK where there is none.
absl::Status RemoveManifest(const std::filesystem::path& folder);

}  // namespace mpsd::models

#endif  // MPSD_SERVER_MODELS_MANIFEST_H_
