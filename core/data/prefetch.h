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

// A Loader whose next steps are made on a separate thread while a step is
// trained: the same batches in the same order. At most one step waits to be
// taken while the thread makes the next. Call from one thread at a time, like
// Loader; the source is called on the prefetching thread.
class Prefetcher {
 public:
  // Like Loader's constructor.
  Prefetcher(const Source& source, LoaderOptions options);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Like Loader's methods. They count the steps that NextStep returned, not
  // those made ahead. After an error the next call of NextStep tries the same
  // step again.
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

  Loader loader_;  // used only by thread_ while it runs
  const int64_t steps_per_epoch_;
  Cursor cursor_;
  absl::Mutex mutex_;
  std::optional<Step> ahead_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_PREFETCH_H_
