// SPDX-License-Identifier: Apache-2.0
#include "core/train/data_reader.h"

#include <utility>

#include "absl/time/time.h"
#include "core/base/check.h"

namespace mpsd::train {
namespace {

// How often a waiting Get passes on the reader's progress.
constexpr absl::Duration kTellEvery = absl::Milliseconds(100);

}  // namespace

DataReader::DataReader(Task& task, Relay& relay, std::string model_folder,
                       spec::ModelConfig config)
    : task_(task),
      relay_(relay),
      model_folder_(std::move(model_folder)),
      config_(std::move(config)),
      thread_([this] { Run(); }) {}

DataReader::~DataReader() { thread_.join(); }

void DataReader::Run() {
  std::optional<absl::StatusOr<TaskData>> data;
  std::exception_ptr error;
  try {
    data.emplace(task_.LoadData(model_folder_, config_));
  } catch (...) {
    // torch's exceptions surface on the run's thread, in Get, as if LoadData
    // had run there.
    error = std::current_exception();
  }
  absl::MutexLock lock(&mutex_);
  data_ = std::move(data);
  error_ = error;
  done_ = true;
}

bool DataReader::done() const {
  absl::MutexLock lock(&mutex_);
  return done_;
}

absl::StatusOr<TaskData> DataReader::Get() {
  for (bool done = false; !done;) {
    {
      absl::MutexLock lock(&mutex_);
      done = mutex_.AwaitWithTimeout(absl::Condition(&done_), kTellEvery);
    }
    relay_.Tell();
  }
  absl::MutexLock lock(&mutex_);
  if (error_) std::rethrow_exception(error_);
  base::Check(data_.has_value(), "Get is called once");
  return *std::exchange(data_, std::nullopt);
}

}  // namespace mpsd::train
