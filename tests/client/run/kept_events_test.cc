// SPDX-License-Identifier: Apache-2.0
#include "client/run/kept_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "mpsd/v1/jobs.pb.h"

namespace mpsd::client {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

class KeptEventsTest : public testing::Test {
 protected:
  v1::JobEvent& Next() {
    event_.Clear();
    event_.set_sequence(++sequence_);
    return event_;
  }
  void Step(int64_t step, double loss) {
    v1::Progress& progress = *Next().mutable_progress();
    progress.set_step(step);
    progress.set_loss(loss);
    (*progress.mutable_cpu_fallback_ops())["aten::sort"] = step;
    kept_.Add(event_);
  }
  std::vector<json> Finish() {
    kept_.Finish(&run_);
    std::vector<json> events;
    for (const std::string& text : run_.events) {
      events.push_back(json::parse(text));
    }
    return events;
  }
  size_t Bytes() const {
    size_t bytes = 0;
    for (const std::string& text : run_.events) bytes += text.size();
    return bytes;
  }

  KeptEvents kept_{500};
  run_page::RunData run_;
  v1::JobEvent event_;
  int64_t sequence_ = 0;
};

TEST_F(KeptEventsTest, EverythingOfAShortRunInItsOrder) {
  run_page::RunData none;
  KeptEvents(500).Finish(&none);
  EXPECT_THAT(none.events, IsEmpty());
  Next().mutable_state()->set_state(v1::JOB_STATE_RUNNING);
  kept_.Add(event_);
  Step(1, 2.5);
  Next().mutable_evaluated()->set_step(1);
  kept_.Add(event_);
  Step(2, 2.25);
  const auto events = Finish();
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0]["state"]["state"], "JOB_STATE_RUNNING");
  EXPECT_EQ(events[1]["progress"]["loss"], 2.5);
  EXPECT_EQ(events[2]["evaluated"]["step"], "1");
  EXPECT_EQ(events[3]["progress"]["loss"], 2.25);
  EXPECT_EQ(
      run_.left_out.steps + run_.left_out.evaluations + run_.left_out.events,
      0);
  // Only the latest step has the counts of the whole job.
  EXPECT_FALSE(events[1]["progress"].contains("cpu_fallback_ops"));
  EXPECT_TRUE(events[3]["progress"].contains("cpu_fallback_ops"));
}

TEST_F(KeptEventsTest, AMillionStepsMakeNoLargeDocument) {
  for (int64_t step = 1; step <= 1'000'000; ++step) {
    Step(step, step == 654'321 ? 99 : 1 + std::sin(step));
  }
  const auto events = Finish();
  EXPECT_LE(events.size(), 500u);
  EXPECT_EQ(run_.left_out.steps,
            1'000'000 - static_cast<int64_t>(events.size()));
  double most = 0;
  for (const json& event : events) {
    most = std::max(most, event["progress"]["loss"].get<double>());
  }
  EXPECT_EQ(most, 99) << "the peak is gone";
  EXPECT_EQ(events.front()["progress"]["step"], "1");
  EXPECT_EQ(events.back()["progress"]["step"], "1000000");
}

TEST_F(KeptEventsTest, EvaluationsOfManyMetricsAreBounded) {
  for (int64_t step = 0; step < 20'000; ++step) {
    v1::Evaluated& evaluated = *Next().mutable_evaluated();
    evaluated.set_step(step);
    for (int i = 0; i < 64; ++i) {
      (*evaluated
            .mutable_metrics())[std::string(120, 'm') + std::to_string(i)] = i;
    }
    kept_.Add(event_);
  }
  Finish();
  EXPECT_LT(Bytes(), 10u << 20);
  EXPECT_GT(run_.left_out.evaluations, 0);
}

TEST_F(KeptEventsTest, TheLatestOfOtherEventsStay) {
  for (int i = 0; i < 100'000; ++i) {
    Next().set_note("note " + std::to_string(i) + std::string(100, '.'));
    kept_.Add(event_);
  }
  const auto events = Finish();
  EXPECT_LT(Bytes(), 4u << 20);
  EXPECT_THAT(events.back()["note"].get<std::string>(),
              testing::StartsWith("note 99999"));
  EXPECT_EQ(run_.left_out.events,
            100'000 - static_cast<int64_t>(events.size()));
}

class FilePickerTest : public testing::Test {
 protected:
  bool Head(const std::string& path, int64_t size_bytes) {
    v1::DownloadResponse part;
    part.mutable_file()->set_path(path);
    part.mutable_file()->set_size_bytes(size_bytes);
    return picker_.Accept(part);
  }
  bool Data(const std::string& bytes) {
    v1::DownloadResponse part;
    part.set_data(bytes);
    return picker_.Accept(part);
  }

  std::map<std::string, std::string> files_;
  FilePicker picker_{files_};
};

TEST_F(FilePickerTest, KeepsTheFilesOfAPage) {
  EXPECT_TRUE(Head("confusion_matrix.json", 4));
  EXPECT_TRUE(Data("[1"));
  EXPECT_TRUE(Data("]\n"));
  EXPECT_TRUE(Head("run.json", 2));
  EXPECT_TRUE(Data("{}"));
  EXPECT_FALSE(Head("secret.json", 2));
  EXPECT_FALSE(Data("xx"));
  EXPECT_THAT(files_, ElementsAre(Pair("confusion_matrix.json", "[1]\n"),
                                  Pair("run.json", "{}")));
  files_.clear();
  EXPECT_FALSE(Head("run.json", (1 << 20) + 1));
  EXPECT_THAT(files_, IsEmpty());
}

TEST(ProtoJsonTest, HasTheProtosNamesAndNoZeros) {
  v1::JobEvent event;
  event.mutable_time()->set_seconds(1767323045);
  event.mutable_progress()->set_step(int64_t{1} << 60);
  event.mutable_progress()->set_learning_rate(0.25);
  EXPECT_EQ(
      json::parse(ProtoJson(event)),
      json({{"time", "2026-01-02T03:04:05Z"},
            {"progress",
             {{"step", "1152921504606846976"}, {"learning_rate", 0.25}}}}));
  v1::Evaluated evaluated;
  evaluated.set_eval_loss(std::numeric_limits<double>::quiet_NaN());
  (*evaluated.mutable_metrics())["a"] =
      -std::numeric_limits<double>::infinity();
  EXPECT_EQ(json::parse(ProtoJson(evaluated)),
            json({{"eval_loss", "NaN"}, {"metrics", {{"a", "-Infinity"}}}}));
}

TEST(ProtoJsonTest, ATimeWithoutJsonLosesItsMessageAlone) {
  v1::JobEvent event;
  event.mutable_time()->set_seconds(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(json::parse(ProtoJson(event)), json::object());
}

}  // namespace
}  // namespace mpsd::client
