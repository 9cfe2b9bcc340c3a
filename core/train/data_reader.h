// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <future>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"
#include "core/train/observer.h"
#include "core/train/task_pipeline.h"

namespace mpsd::train {

// Splits and limits the data. Without an eval set it takes validation_split off
// the training data; then it keeps the first max_…_samples of each set (the
// order of Transformers' run_glue.py: split first). InvalidArgument if a set
// would be empty.
absl::Status SplitAndLimit(const spec::TrainSpec& spec, TaskData& data);

// Runs TaskPipeline::LoadData on its own thread while the run's thread loads
// the weights; only the run's thread calls the device. For tasks whose data do
// not change the model's config (TaskPipeline::data_change_model).
//
// Observers expect calls only from the run's thread: LoadData's reports are
// queued until the run's thread calls Report or Get.
class DataReader final : private Observer {
 public:
  // Starts the thread. `pipeline` and `observer` must outlive this object.
  DataReader(TaskPipeline& pipeline, Observer& observer,
             std::string model_folder, spec::ModelConfig config);
  // The destructor waits until LoadData has returned.
  DataReader(const DataReader&) = delete;
  DataReader& operator=(const DataReader&) = delete;

  // Forwards everything queued, in the order of the calls; of one stage's
  // progress only the latest.
  void Report();

  // Whether Get would return without waiting.
  bool done() const;

  // Waits for LoadData, forwarding what is queued meanwhile; returns its
  // result, or rethrows its exception. Call at most once, unless it throws.
  absl::StatusOr<TaskData> Get();

 private:
  struct RelayedCall {
    bool is_warning;
    std::string text;
    double fraction;
  };

  // Called on the reading thread.
  void OnStage(const std::string& stage, double fraction) override;
  void TellWarning(const std::string& text) override;
  StopRequest stop_request() override { return StopRequest::kNone; }

  Observer& to_;
  absl::Mutex mutex_;
  std::deque<RelayedCall> waiting_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::StatusOr<TaskData>> data_;  // set when `read_` is ready
  std::shared_future<void> read_;  // last member: its thread uses those above
};

}  // namespace mpsd::train
