// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_MODELS_PULL_STORE_H_
#define MPSD_SERVER_MODELS_PULL_STORE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace mpsd::models {

// A pull that goes on after a restart of the daemon.
struct KeptPull {
  std::string id, revision;
  std::string user;    // who began it
  std::string commit;  // that the revision named; empty: not known yet
  absl::Time begin_time;
  bool operator==(const KeptPull&) const = default;
};

// The pulls that have not ended, by id and revision. Thread-safe.
class PullStore {
 public:
  virtual ~PullStore() = default;
  // After OK the pull survives a power cut. AlreadyExists where there is one of
  // this id and revision.
  virtual absl::Status Add(const KeptPull& pull) = 0;
  // Harmless where there is no such pull, as Remove.
  virtual absl::Status SetCommit(const std::string& id,
                                 const std::string& revision,
                                 const std::string& commit) = 0;
  virtual absl::Status Remove(const std::string& id,
                              const std::string& revision) = 0;
  // The oldest first.
  virtual absl::StatusOr<std::vector<KeptPull>> List() = 0;
};

}  // namespace mpsd::models

#endif  // MPSD_SERVER_MODELS_PULL_STORE_H_
