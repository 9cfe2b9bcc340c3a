// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <utility>

#include "core/train/describe.h"
#include "core/train/stages.h"

namespace mpsd::train {

absl::StatusOr<Opened> Open(spec::TrainSpec spec, const RunContext& context,
                            Observer& observer) {
  auto device = device::Open(spec.device);
  if (!device.ok()) return device.status();
  observer.OnDevice((*device)->name());
  (*device)->Seed(static_cast<uint64_t>(spec.training.seed));
  auto described = Describe(std::move(spec), observer);
  if (!described.ok()) return described.status();
  // Hashing starts as soon as the folder is known to contain a model for the
  // job, and runs concurrently with everything up to the first checkpoint.
  auto digests = std::make_unique<ModelDigests>(
      described->model_folder, context.cache_dir / kModelDigestsFile);
  return Opened{context,
                observer,
                *std::move(device),
                std::move(described->model_folder),
                std::move(digests),
                std::move(described->config),
                std::move(described->spec)};
}

}  // namespace mpsd::train
