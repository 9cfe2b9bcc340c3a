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

// Removes what nobody needs any more, on a thread of its own: once what daemons
// that were killed left, and from time to time blobs that no job uses.
class Housekeeping {
 public:
  struct Options {
    std::filesystem::path jobs_dir;
    absl::Duration blob_grace;
    // One line each, of what was removed or could not be.
    std::function<void(const std::string&)> log = [](const std::string&) {};
  };

  // `blobs` must outlive it.
  Housekeeping(Options options, store::BlobStore& blobs)
      : options_(std::move(options)), blobs_(blobs) {}

  // Looks what there is to remove, before the first job is submitted or
  // deleted; removing it goes on after the return. What cannot be looked at is
  // logged and stays.
  void Start(jobs::JobStore& store);
  // Waits for what is under way.
  void Stop() { ticker_.Stop(); }

 private:
  absl::Time Tidy();

  const Options options_;
  store::BlobStore& blobs_;
  std::vector<std::filesystem::path> garbage_;  // of the thread, once started
  Ticker ticker_;
};

}  // namespace mpsd

#endif  // MPSD_SERVER_HOUSEKEEPING_H_
