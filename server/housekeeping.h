// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HOUSEKEEPING_H_
#define MPSD_SERVER_HOUSEKEEPING_H_

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/jobs/job_store.h"
#include "server/store/blob_store.h"
#include "server/ticker.h"

namespace mpsd {

// Removes files that nobody needs, on a thread of its own: once the leftovers
// of daemons that were killed, and from time to time blobs that no job uses.
class Housekeeping {
 public:
  struct Options {
    std::filesystem::path jobs_dir;
    absl::Duration blob_grace;
    // Gets one line for each thing that was removed or could not be removed.
    std::function<void(const std::string&)> log = [](const std::string&) {};
  };

  // `blobs` must outlive the Housekeeping.
  Housekeeping(Options options, store::BlobStore& blobs)
      : options_(std::move(options)), blobs_(blobs) {}

  // Finds what there is to remove; call it before the first job is submitted or
  // deleted. Removal goes on after Start returns. Start logs whatever it cannot
  // look at and leaves it in place.
  void Start(jobs::JobStore& store);
  // Waits for a removal in progress.
  void Stop() { ticker_.Stop(); }

 private:
  absl::Time Tidy();

  const Options options_;
  store::BlobStore& blobs_;
  // Once started, used by the ticker's thread alone.
  std::vector<std::filesystem::path> garbage_;
  Ticker ticker_;
};

}  // namespace mpsd

#endif  // MPSD_SERVER_HOUSEKEEPING_H_
