// SPDX-License-Identifier: Apache-2.0
#include "core/train/data_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "core/train/language_modelling.h"
#include "tests/core/job_folder.h"
#include "tests/core/train/lm_parts.h"

namespace mpsd::train {
namespace {

using testing::ElementsAre;

// A task whose data are there when the test says so.
class SlowPipeline : public LanguageModelling {
 public:
  SlowPipeline(const spec::TrainSpec& spec, absl::StatusOr<TaskData> data)
      : LanguageModelling(spec), data_(std::move(data)) {}

  absl::StatusOr<TaskData> LoadData(const std::string& folder,
                                    spec::ModelConfig& config,
                                    Observer& observer) override {
    thread = std::this_thread::get_id();
    observer.OnStage(folder + ", layers", config.num_hidden_layers);
    told.Notify();
    go_on.WaitForNotification();
    observer.OnStage("tokenizing", 0.25);
    observer.OnStage("tokenizing", 0.5);
    observer.OnWarning("slow");
    observer.OnStage("tokenizing", 0.75);
    said_all.Notify();
    end.WaitForNotification();
    if (throws) throw std::runtime_error("thrown");
    return std::move(data_);
  }

  // Lets it speak, and end.
  void GoOn() {
    go_on.Notify();
    end.Notify();
  }

  absl::Notification told, go_on, said_all, end;
  bool throws = false;
  std::thread::id thread;

 private:
  absl::StatusOr<TaskData> data_;
};

class Listener : public testing_support::RecordingObserver {
 public:
  void OnStage(const std::string& stage, double fraction) override {
    RecordingObserver::OnStage(stage, fraction);
    Hear(absl::StrCat(stage, " ", fraction));
  }
  std::vector<std::string> said;
  bool threads_agree = true;

 private:
  void TellWarning(const std::string& text) override {
    Hear("warning " + text);
  }
  void Hear(const std::string& text) {
    said.push_back(text);
    threads_agree &= std::this_thread::get_id() == thread_;
  }
  const std::thread::id thread_ = std::this_thread::get_id();
};

class DataReaderTest : public testing::Test {
 protected:
  DataReaderTest() { config_.num_hidden_layers = 3; }

  spec::TrainSpec spec_;
  spec::ModelConfig config_;
  Listener observer_;
};

TEST_F(DataReaderTest, ReadsBesideTheCallerAndTellsOnItsThread) {
  TaskData data;
  data.train = std::make_unique<Batches>(
      std::vector<data::Batch>{MakeBatch({4}, 4), MakeBatch({3}, 4)});
  SlowPipeline pipeline(spec_, std::move(data));
  DataReader reader(pipeline, observer_, "folder", config_);
  EXPECT_FALSE(reader.done());
  pipeline.told.WaitForNotification();
  EXPECT_TRUE(observer_.stages.empty());
  reader.Tell();
  EXPECT_THAT(observer_.stages, ElementsAre("folder, layers"));
  // A Get that waits tells what there is from time to time: it comes once all
  // has been said.
  pipeline.go_on.Notify();
  pipeline.said_all.WaitForNotification();
  pipeline.end.Notify();
  auto read = reader.Get();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->train->size(), 2);
  EXPECT_TRUE(reader.done());
  EXPECT_NE(pipeline.thread, std::this_thread::get_id());
  // The latest of a stage's progress, and all in the order of the calls.
  EXPECT_THAT(observer_.said, ElementsAre("folder, layers 3", "tokenizing 0.5",
                                          "warning slow", "tokenizing 0.75"));
  EXPECT_TRUE(observer_.threads_agree);
}

TEST_F(DataReaderTest, GivesErrorsAndWhatWasThrown) {
  {
    SlowPipeline pipeline(spec_, absl::InvalidArgumentError("line 3"));
    pipeline.GoOn();
    DataReader reader(pipeline, observer_, "folder", config_);
    EXPECT_EQ(reader.Get().status(), absl::InvalidArgumentError("line 3"));
  }
  SlowPipeline pipeline(spec_, TaskData());
  pipeline.throws = true;
  pipeline.GoOn();
  DataReader reader(pipeline, observer_, "folder", config_);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROW(reader.Get().IgnoreError(), std::runtime_error);
  }
}

TEST_F(DataReaderTest, AnswersThatNobodyTakesAreWaitedFor) {
  SlowPipeline pipeline(spec_, TaskData());
  pipeline.GoOn();
  { DataReader reader(pipeline, observer_, "folder", config_); }
  EXPECT_NE(pipeline.thread, std::thread::id());
}

}  // namespace
}  // namespace mpsd::train
