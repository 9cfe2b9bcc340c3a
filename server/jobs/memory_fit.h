// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_MEMORY_FIT_H_
#define MPSD_SERVER_JOBS_MEMORY_FIT_H_

#include <cstdint>
#include <string>

#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

namespace mpsd::jobs {

// The memory that a job may take, in bytes; 0 where it is not known.
struct MachineMemory {
  int64_t host_bytes = 0;
  std::string device;  // the last worker's: "mps", "cuda", "cpu"; or empty
  // the most that the system recommends for the device
  int64_t device_bytes = 0;
};

// The least memory in bytes that the job can run with: auto_find_batch_size
// goes down to single rows whose layers are computed again.
int64_t LeastMemory(spec::TrainSpec spec, const spec::ModelConfig& model);

// The memory of the job's device in bytes; 0 where it is not known.
int64_t MemoryFor(const MachineMemory& memory, spec::DeviceChoice device);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_MEMORY_FIT_H_
