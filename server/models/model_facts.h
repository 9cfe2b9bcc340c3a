// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_MODELS_MODEL_FACTS_H_
#define MPSD_SERVER_MODELS_MODEL_FACTS_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "server/jobs/submission.h"

namespace mpsd::models {

// What mpsd can do with a model's folder.
struct ModelFacts {
  std::string family;              // config.json's model_type; "": not known
  int64_t parameters = 0;          // 0: not known
  std::vector<std::string> tasks;  // of job.json; empty: see `problem`
  std::string problem;             // why jobs cannot use it, or only some can
  // The least device memory in bytes that LoRA takes with job.json's defaults
  // and auto_find_batch_size; 0: not known.
  int64_t least_memory_bytes = 0;
  std::optional<bool> fits;  // into this machine; nullopt: not known
};

ModelFacts FactsOf(const std::filesystem::path& folder,
                   const jobs::MachineMemory& memory);

}  // namespace mpsd::models

#endif  // MPSD_SERVER_MODELS_MODEL_FACTS_H_
