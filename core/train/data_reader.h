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

// Task::LoadData on a thread of its own, while the run's thread, which alone
// calls the device, loads the weights. For tasks whose data do not change the
// model's config.
class DataReader {
 public:
  // `task` tells `relay` what it does; both must outlive this object.
  DataReader(Task& task, Relay& relay, std::string model_folder,
             spec::ModelConfig config);
  // Waits for what was begun.
  ~DataReader();
  DataReader(const DataReader&) = delete;
  DataReader& operator=(const DataReader&) = delete;

  // Whether Get would give its answer at once.
  bool done() const;

  // What LoadData gave, or threw, waited for; meanwhile the relay tells what is
  // going on. Once.
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
  std::thread thread_;  // last: it uses the rest
};

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_DATA_READER_H_
