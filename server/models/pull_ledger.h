// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_MODELS_PULL_LEDGER_H_
#define MPSD_SERVER_MODELS_PULL_LEDGER_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mpsd::models {

// The bytes that each user's pulls wrote, which count among the user's uploads
// until the model is removed. Thread-safe; implemented by server/store.
class PullLedger {
 public:
  using Bytes = std::map<std::string, int64_t>;  // by user

  virtual ~PullLedger() = default;
  virtual absl::Status Add(const std::string& model, const std::string& user,
                           int64_t bytes) = 0;
  virtual absl::Status Remove(const std::string& model) = 0;
  // By model.
  virtual absl::StatusOr<std::map<std::string, Bytes>> All() = 0;
};

}  // namespace mpsd::models

#endif  // MPSD_SERVER_MODELS_PULL_LEDGER_H_
