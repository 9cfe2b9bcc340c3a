// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/memory_fit.h"

#include "core/backend/traits.h"
#include "core/spec/memory_estimate.h"

namespace mpsd::jobs {

int64_t LeastMemory(spec::TrainSpec spec, const spec::ModelConfig& model) {
  if (spec.training.auto_find_batch_size) {
    spec.training.per_device_train_batch_size = 1;
    spec.training.set_recompute(spec::Recompute::kFull);
  }
  return spec::EstimateMemory(spec, model).total_bytes;
}

int64_t MemoryFor(const MachineMemory& memory, spec::DeviceChoice device) {
  const backend::MemoryPlace place = backend::TraitsOf(device).memory;
  if (place == backend::MemoryPlace::kHost) return memory.host_bytes;
  const bool told =
      memory.device_bytes > 0 && (device == spec::DeviceChoice::kAuto ||
                                  memory.device == backend::NameOf(device));
  if (told) return memory.device_bytes;
  return place == backend::MemoryPlace::kOwn ? 0 : memory.host_bytes;
}

}  // namespace mpsd::jobs
