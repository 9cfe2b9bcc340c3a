// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_DATA_READER_H_
#define MPSD_CORE_TRAIN_DATA_READER_H_

#include <exception>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/spec/model_config.h"
#include "core/train/relay.h"
#include "core/train/task.h"

namespace mpsd::train {

// Runs Task::LoadData on its own thread while the run's thread loads the
// weights; only the run's thread calls the device. For tasks whose data do not
// change the model's config (Task::data_change_model).
class DataReader {
 public:
  // Starts the thread. `task` reports to `relay`; both must outlive this
  // object.
  DataReader(Task& task, Relay& relay, std::string model_folder,
             spec::ModelConfig config);
  // Waits until LoadData has returned.
  ~DataReader();
  DataReader(const DataReader&) = delete;
  DataReader& operator=(const DataReader&) = delete;

  // Whether Get would return without waiting.
  bool done() const;

  // Waits for LoadData, passing on what the relay has collected meanwhile;
  // returns its result, or rethrows its exception. Called at most once.
  absl::StatusOr<TaskData> Get();

 private:
  void Run();

  Task& task_;
  Relay& relay_;
  const std::string model_folder_;
  spec::ModelConfig config_;
  mutable absl::Mutex mutex_;
  std::optional<absl::StatusOr<TaskData>> data_ ABSL_GUARDED_BY(mutex_);
  std::exception_ptr error_ ABSL_GUARDED_BY(mutex_);
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last member: Run uses those above
};

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_DATA_READER_H_
