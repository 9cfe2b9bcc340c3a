// SPDX-License-Identifier: Apache-2.0
#include "core/report/tensorboard.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <limits>

#include "absl/strings/escaping.h"
#include "core/base/file.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"
#include "tests/fakes/fake_clock.h"

namespace mpsd::tensorboard {
namespace {

const absl::Time kTime = absl::FromUnixMillis(1767225600250);

std::string HexOf(const std::string& bytes) {
  return absl::BytesToHexString(bytes);
}

// The bytes that TensorBoard 2.21 itself writes: RecordWriter of
// tensorboard.summary.writer over tensorboard.compat.proto's event_pb2.Event
// (tests/live/trackers reads ours by TensorBoard's readers).
TEST(RecordOf, IsWhatTensorBoardWrites) {
  EXPECT_EQ(HexOf(RecordOf(VersionEvent(kTime))),
            "1800000000000000a37f4b22"
            "09000010406e55da411a0d627261696e2e4576656e743a32"
            "7ce7ce86");
  EXPECT_EQ(HexOf(RecordOf(RestartEvent(kTime, 301))),
            "100000000000000095fbfe18"
            "09000010406e55da4110ad023a020801"
            "5df3d0d5");
  const Scalars scalars = {
      {"train/loss", 0.1},
      {"eval/f1", std::numeric_limits<double>::infinity()}};
  EXPECT_EQ(HexOf(RecordOf(ScalarsEvent(kTime, 300, scalars))),
            "31000000000000009d8383e9"
            "09000010406e55da4110ac02"
            "2a230a110a0a747261696e2f6c6f737315cdcccc3d"
            "0a0e0a076576616c2f6631150000807f"
            "a261ef02");
}

TEST(ScalarsEvent, TheFirstStepIsTheAbsentOneAndLongTagsHaveLongLengths) {
  EXPECT_EQ(
      HexOf(ScalarsEvent(kTime, 0, {{std::string(200, 't'), 0}})).substr(0, 40),
      "09000010406e55da412ad3010ad0010ac8017474");
}

// The events of a file; checks length and both sums of each. What is cut short
// at the end is left out.
std::vector<std::string> EventsIn(std::string_view bytes) {
  std::vector<std::string> events;
  while (bytes.size() >= 12) {
    uint64_t length = 0;
    uint32_t crc = 0;
    std::memcpy(&length, bytes.data(), 8);
    std::memcpy(&crc, bytes.data() + 8, 4);
    EXPECT_EQ(crc, MaskedCrc32c(bytes.substr(0, 8)));
    if (bytes.size() < 16 + length) break;
    const std::string_view event = bytes.substr(12, length);
    std::memcpy(&crc, bytes.data() + 12 + length, 4);
    EXPECT_EQ(crc, MaskedCrc32c(event));
    events.emplace_back(event);
    bytes.remove_prefix(16 + length);
  }
  return events;
}

class EventFileTest : public testing::Test {
 protected:
  std::unique_ptr<EventFile> Create(int64_t next_step) {
    return EventFile::Create(folder_, next_step, clock_).value();
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  std::vector<std::string> EventsOf(const fs::path& path) const {
    return EventsIn(*base::ReadFile(path));
  }

  const fs::path folder_ = FreshFolder("events") / "runs";
  fakes::FakeClock clock_;
};

TEST_F(EventFileTest, AFirstAttemptHasItsValuesAndNoRestart) {
  auto file = Create(0);
  file->Add(1, {{"train/loss", 0.5}});
  EXPECT_THAT(Names(), ElementsAre("events.out.tfevents.1767225600.mpsd"));
  // Readable while the attempt runs.
  EXPECT_THAT(
      EventsOf(file->path()),
      ElementsAre(VersionEvent(clock_.Now()),
                  ScalarsEvent(clock_.Now(), 1, {{"train/loss", 0.5}})));
}

TEST_F(EventFileTest, ALaterAttemptHasALaterFileAndTakesStepsBack) {
  const fs::path first = Create(0)->path();
  const std::string before = *base::ReadFile(first);
  // Within the same second, and with a clock that was set back.
  const fs::path second = Create(5)->path();
  clock_.SetBack(absl::Hours(10));
  const fs::path third = Create(9)->path();
  EXPECT_THAT(Names(), ElementsAre(first.filename(), second.filename(),
                                   third.filename()));
  EXPECT_EQ(*base::ReadFile(first), before);
  EXPECT_THAT(EventsOf(third), ElementsAre(VersionEvent(clock_.Now()),
                                           RestartEvent(clock_.Now(), 9)));
}

// Neither other files nor names that only look alike count.
TEST_F(EventFileTest, OtherFilesInTheFolderStay) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "events.out.tfevents.99999999999999999999.mpsd");
  std::ofstream(folder_ / "events.out.tfevents.1999999999.other-host");
  std::ofstream(folder_ / "notes.txt");
  const fs::path path = Create(3)->path();
  EXPECT_EQ(path.filename(), "events.out.tfevents.1767225600.mpsd");
  EXPECT_THAT(EventsOf(path), SizeIs(1));
}

// As on a full disk: a write takes a part of a record, and then no byte.
TEST_F(EventFileTest, AfterAFullDiskTheFileIsWholeAgain) {
  auto file = Create(0);
  const auto size = static_cast<rlim_t>(fs::file_size(file->path()));
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit full = before;
  full.rlim_cur = size + 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  for (int64_t step = 1; step <= 5000; ++step) {
    file->Add(step, {{"train/loss", 0.5}});
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(fs::file_size(file->path()), size + 20);
  file->Add(5001, {{"train/loss", 0.5}});
  const auto events = EventsOf(file->path());
  // What waited comes first; steps beyond what may wait are left out.
  EXPECT_EQ(events[1], ScalarsEvent(clock_.Now(), 1, {{"train/loss", 0.5}}));
  EXPECT_GT(events.size(), 500u);
  EXPECT_LT(events.size(), 5000u);
  file->Add(5002, {{"train/loss", 0.25}});
  EXPECT_EQ(EventsOf(file->path()).back(),
            ScalarsEvent(clock_.Now(), 5002, {{"train/loss", 0.25}}));
}

using testing::UnorderedElementsAre;

TEST(ScalarsOf, AStepHasACurveForEachOfItsNumbers) {
  report::Progress step;
  step.step = 7;
  step.total_steps = 9;
  step.epoch = 0.5;
  step.loss = 1.5;
  step.learning_rate = 1e-3;
  step.grad_norm = 2;
  step.tokens = 60;
  step.label_tokens = 30;
  step.padded_tokens = 80;
  step.seconds = 0.5;
  step.data_wait_seconds = 0.25;
  step.device = "mps";
  step.memory = {1, 2, 3, 4, 5};
  step.cpu_fallback_ops = {{"aten::a", 2}};
  step.device_utilization_ratio = 0.75;
  EXPECT_THAT(ScalarsOf(step),
              UnorderedElementsAre(
                  Pair("train/epoch", 0.5), Pair("train/loss", 1.5),
                  Pair("train/learning_rate", 1e-3), Pair("train/grad_norm", 2),
                  Pair("train/step_seconds", 0.5),
                  Pair("train/data_wait_seconds", 0.25),
                  Pair("train/device_utilization_ratio", 0.75),
                  Pair("train/tokens_per_second", 120),
                  Pair("memory/current_allocated_bytes", 1),
                  Pair("memory/driver_allocated_bytes", 2),
                  Pair("memory/recommended_max_bytes", 3),
                  Pair("memory/footprint_bytes", 4),
                  Pair("memory/peak_allocated_bytes", 5)));
}

TEST(ScalarsOf, WhatAStepLacksHasNoCurveAndAnEvaluationHasItsMetrics) {
  report::Progress step;
  step.step = 1;
  step.loss = 1.5;
  EXPECT_THAT(
      ScalarsOf(step),
      ElementsAre(Pair("train/epoch", 0), Pair("train/loss", 1.5),
                  Pair("train/learning_rate", 0), Pair("train/grad_norm", 0),
                  Pair("train/step_seconds", 0)));
  EXPECT_THAT(ScalarsOf(report::Evaluated{4, 2.5, 9, 0.5, {{"f1", 0.75}}}),
              ElementsAre(Pair("eval/loss", 2.5), Pair("eval/seconds", 0.5),
                          Pair("eval/f1", 0.75)));
}

}  // namespace
}  // namespace mpsd::tensorboard
