// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STATE_USAGE_H_
#define MPSD_SERVER_STATE_USAGE_H_

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "server/jobs/collector.h"

namespace mpsd {

// The disk space of the files in a state folder, in bytes, by kind:
//
//   checkpoints   jobs/ID/out/checkpoints/
//   results       the rest of jobs/ID/out/
//   uploads       blobs/; the links to blobs in jobs/ID/inputs/ and in models/
//                 are not counted
//   database      mpsd.db with its -wal and -shm
//   logs          log/, jobs/ID/log
//   other         everything else, as folders that are being deleted
//
// Each kind is there, also with 0 bytes.
struct StateUsage {
  std::map<std::string, int64_t> by_kind;
  // jobs/ID/ without its inputs, by id.
  std::map<std::string, jobs::FolderBytes> by_job;

  int64_t TotalBytes() const;
};

// Follows no link and skips what it may not read, so that no job can spoil the
// measurement. A file that appears or disappears meanwhile may be counted.
// Cancelled soon after `stop` became true; other errors, which are the disk's,
// name the folder.
absl::StatusOr<StateUsage> MeasureState(const std::filesystem::path& state_dir,
                                        const std::atomic<bool>& stop);

}  // namespace mpsd

#endif  // MPSD_SERVER_STATE_USAGE_H_
