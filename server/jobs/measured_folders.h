// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_MEASURED_FOLDERS_H_
#define MPSD_SERVER_JOBS_MEASURED_FOLDERS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace mpsd::jobs {

// The disk space of a job's folder without its inputs.
struct FolderBytes {
  std::string id;
  int64_t bytes = 0;
  int64_t checkpoint_bytes = 0;  // among them

  bool operator==(const FolderBytes&) const = default;
};

// The disk space of the state folder and of each job's folder, as measured
// last, less what was removed since then. A measurement takes a while: what is
// removed meanwhile is taken from its result too, though the walk may have come
// too late to count it, so that the figure is never too high for what was
// removed and nothing goes for bytes that are gone. Thread-safe.
class MeasuredFolders {
 public:
  // A measurement begins.
  void Begin();
  // It has ended, with the bytes of the whole state folder and of each job's.
  void Set(int64_t total_bytes, const std::vector<FolderBytes>& folders);

  // The job's folder, or its checkpoints, or `bytes` of something else went.
  void JobRemoved(const std::string& id);
  void CheckpointsRemoved(const std::string& id);
  void OthersRemoved(int64_t bytes);

  // 0 for a folder that was not there yet.
  int64_t BytesOf(const std::string& id) const;
  // The state folder's; nullopt before the first measurement.
  std::optional<int64_t> TotalBytes() const;

  // At most `limit` folders whose figures changed since they were taken, and
  // that Return did not give back.
  std::vector<FolderBytes> TakeChanged(size_t limit);
  void Return(const std::vector<FolderBytes>& folders);

 private:
  void Shrink(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::optional<int64_t> total_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, FolderBytes> folders_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> changed_ ABSL_GUARDED_BY(mutex_);
  // What was removed since the measurement under way began, in bytes.
  bool measuring_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, int64_t> jobs_removed_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int64_t> checkpoints_removed_ ABSL_GUARDED_BY(mutex_);
  int64_t others_removed_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_MEASURED_FOLDERS_H_
