// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_DISK_OPTIONS_H_
#define MPSD_SERVER_DISK_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "server/config.h"

namespace CLI {
class App;
}

namespace mpsd {

// The options on the state folder's disk: the space to keep free, and the
// folder's budget. Those of each user are among the limits of users.
class DiskOptions {
 public:
  DiskOptions();

  // Declares the options; `app` fills them in, so the object must outlive the
  // parsing and must not move until then.
  void Declare(CLI::App& app);
  // Sets their fields of `config`. InvalidArgument names the option.
  absl::Status Finish(Config& config) const;

 private:
  int64_t min_free_bytes_;
  double blob_grace_seconds_;
  std::string state_budget_;
};

}  // namespace mpsd

#endif  // MPSD_SERVER_DISK_OPTIONS_H_
