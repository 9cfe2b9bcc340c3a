// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_PREFETCH_H_
#define MPSD_CORE_DATA_PREFETCH_H_

#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/data/batch.h"
#include "core/data/loader.h"

namespace mpsd::data {

// A Loader whose next step is made on a thread of its own while the step before
// is trained: the same batches in the same order. One step is ahead at most. Of
// one thread, like Loader; the source must bear calls from another.
class Prefetcher {
 public:
  // As Loader's.
  Prefetcher(const Source& source, LoaderOptions options);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // All as Loader's: they speak of the steps that were taken, not of the one
  // ahead. After an error the next call tries again.
  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  absl::StatusOr<std::vector<Batch>> NextStep();
  Cursor cursor() const { return cursor_; }
  void Seek(const Cursor& cursor);
  double epoch_fraction() const;

 private:
  struct Step {
    absl::StatusOr<std::vector<Batch>> batches;
    Cursor after;
  };

  void Run();
  void Stop();

  Loader loader_;  // of the thread, while there is one
  const int64_t steps_per_epoch_;
  Cursor cursor_;
  absl::Mutex mutex_;
  std::optional<Step> ahead_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_PREFETCH_H_
