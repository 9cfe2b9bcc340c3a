// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <utility>

#include "core/base/status_macros.h"
#include "core/train/describe.h"
#include "core/train/stages.h"

namespace mpsd::train {

absl::StatusOr<Opened> Open(spec::TrainSpec spec, const RunContext& context,
                            Observer& observer) {
  ASSIGN_OR_RETURN(auto device, device::Open(spec.device));
  observer.OnDevice(device->name());
  device->Seed(static_cast<uint64_t>(spec.training.seed));
  ASSIGN_OR_RETURN(auto described, Describe(std::move(spec), observer));
  // Hashing starts as soon as the folder is known to contain a model for the
  // job, and runs concurrently with everything up to the first checkpoint.
  auto digests = std::make_unique<ModelDigests>(
      described.model_folder, context.cache_dir / kModelDigestsFile);
  return Opened{context,
                observer,
                std::move(device),
                std::move(described.model_folder),
                std::move(digests),
                std::move(described.config),
                std::move(described.spec)};
}

}  // namespace mpsd::train
