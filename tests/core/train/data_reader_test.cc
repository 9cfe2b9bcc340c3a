// SPDX-License-Identifier: Apache-2.0
#include "core/train/data_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "absl/synchronization/notification.h"
#include "core/train/language_modelling.h"
#include "tests/core/job_folder.h"
#include "tests/core/train/lm_parts.h"

namespace mpsd::train {
namespace {

using testing::ElementsAre;

// A task whose data are there when the test says so.
class SlowTask : public LanguageModelling {
 public:
  SlowTask(const spec::TrainSpec& spec, Relay& relay,
           absl::StatusOr<TaskData> data)
      : LanguageModelling(spec, relay), relay_(relay), data_(std::move(data)) {}

  absl::StatusOr<TaskData> LoadData(const std::string& folder,
                                    spec::ModelConfig& config) override {
    thread = std::this_thread::get_id();
    relay_.OnStage(folder + ", layers", config.num_hidden_layers);
    go_on.WaitForNotification();
    relay_.OnWarning("slow");
    if (throws) throw std::runtime_error("thrown");
    return std::move(data_);
  }

  absl::Notification go_on;
  bool throws = false;
  std::thread::id thread;

 private:
  Relay& relay_;
  absl::StatusOr<TaskData> data_;
};

class DataReaderTest : public testing::Test {
 protected:
  DataReaderTest() { config_.num_hidden_layers = 3; }

  spec::TrainSpec spec_;
  spec::ModelConfig config_;
  testing_support::RecordingObserver observer_;
  Relay relay_{observer_};
};

TEST_F(DataReaderTest, ReadsBesideTheCallerAndTellsOnItsThread) {
  TaskData data;
  data.train = std::make_unique<Batches>(
      std::vector<data::Batch>{MakeBatch({4}, 4), MakeBatch({3}, 4)});
  SlowTask task(spec_, relay_, std::move(data));
  DataReader reader(task, relay_, "folder", config_);
  EXPECT_FALSE(reader.done());
  EXPECT_TRUE(observer_.stages.empty());
  task.go_on.Notify();
  auto read = reader.Get();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->train->size(), 2);
  EXPECT_TRUE(reader.done());
  EXPECT_NE(task.thread, std::this_thread::get_id());
  EXPECT_THAT(observer_.stages, ElementsAre("folder, layers"));
  EXPECT_THAT(observer_.warnings(), ElementsAre("slow"));
}

TEST_F(DataReaderTest, GivesErrorsAndWhatWasThrown) {
  {
    SlowTask task(spec_, relay_, absl::InvalidArgumentError("line 3"));
    task.go_on.Notify();
    DataReader reader(task, relay_, "folder", config_);
    EXPECT_EQ(reader.Get().status(), absl::InvalidArgumentError("line 3"));
  }
  SlowTask task(spec_, relay_, TaskData());
  task.throws = true;
  task.go_on.Notify();
  DataReader reader(task, relay_, "folder", config_);
  EXPECT_THROW(reader.Get().IgnoreError(), std::runtime_error);
}

TEST_F(DataReaderTest, AnswersThatNobodyTakesAreWaitedFor) {
  SlowTask task(spec_, relay_, TaskData());
  task.go_on.Notify();
  { DataReader reader(task, relay_, "folder", config_); }
  EXPECT_NE(task.thread, std::thread::id());
}

}  // namespace
}  // namespace mpsd::train
