// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_MODELS_HUB_MODELS_H_
#define MPSD_SERVER_MODELS_HUB_MODELS_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace mpsd::models {

// A model in a Hugging Face cache.
struct HubModel {
  std::string name;                  // its id
  std::string revision;              // the commit of the snapshot
  std::filesystem::path folder;      // of that snapshot
  std::filesystem::path repository;  // the folder of all its snapshots
  int64_t size_bytes = 0;            // of all snapshots
  absl::Time create_time;            // of the snapshot
  bool is_main = true;  // the snapshot is the one that jobs get by the name
};

// The models of the cache that this process' environment names, by name, at
// most `limit` of them; `name` alone where that is not empty. A model has the
// snapshot of its ref main, else any that has a config.json; models without one
// are left out, as jobs do not find them.
std::vector<HubModel> ListHubModels(const std::string& name, size_t limit);

// Removes all snapshots of the model; returns the bytes freed. The first step
// takes the model's name away, so that a removal that is cut off leaves what
// SweepHubModels removes.
absl::StatusOr<int64_t> RemoveHubModel(const HubModel& model);

// Removes what a removal that was cut off left.
void SweepHubModels();

}  // namespace mpsd::models

#endif  // MPSD_SERVER_MODELS_HUB_MODELS_H_
