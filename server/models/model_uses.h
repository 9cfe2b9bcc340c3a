// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_MODELS_MODEL_USES_H_
#define MPSD_SERVER_MODELS_MODEL_USES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace mpsd::models {

// Which jobs use which models; implemented by server/store. Thread-safe.
class ModelUses {
 public:
  struct Use {
    std::optional<absl::Time> last_start;  // of a job
    int32_t unfinished = 0;                // jobs that have not ended
  };

  virtual ~ModelUses() = default;
  // By what job.json calls the model; those that no job used are left out.
  virtual absl::StatusOr<std::map<std::string, Use>> All() = 0;
  // The models' folders of the jobs that have not ended.
  virtual absl::StatusOr<std::set<std::string>> UnfinishedFolders() = 0;
  // The folders that jobs of whatever state have for the model.
  virtual absl::StatusOr<std::set<std::string>> FoldersOf(
      const std::string& model) = 0;
};

}  // namespace mpsd::models

#endif  // MPSD_SERVER_MODELS_MODEL_USES_H_
