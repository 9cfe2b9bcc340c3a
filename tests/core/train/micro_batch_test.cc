// SPDX-License-Identifier: Apache-2.0
#include "core/train/micro_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/file.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::train {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using enum spec::Recompute;

// How much less memory a row takes.
int64_t ShareOf(spec::Recompute recompute) {
  return recompute == kNone ? 1 : recompute == kSelective ? 2 : 4;
}

// A device on which rows cost memory and a micro-batch time of its own.
struct FakeDevice {
  double seconds_a_call = 1, seconds_a_row = 0.1;
  int64_t bytes_a_row = 100, resident = 50;
  std::vector<MicroBatch> measured = {};

  absl::StatusOr<MicroBatchPlan> Find(const MicroBatchSearch& search) {
    return FindMicroBatch(search, [&](const MicroBatch& choice) {
      measured.push_back(choice);
      const double slower = choice.recompute == kNone        ? 1
                            : choice.recompute == kSelective ? 1.1
                                                             : 1.3;
      const int64_t bytes = bytes_a_row / ShareOf(choice.recompute);
      MicroBatchTrial trial{choice};
      trial.step_seconds = slower *
                           (seconds_a_call + seconds_a_row * choice.rows) *
                           search.batch / choice.rows;
      trial.peak_bytes = resident + bytes * choice.rows;
      return absl::StatusOr<MicroBatchTrial>(trial);
    });
  }
};

MicroBatchSearch Search(int64_t limit) {
  return {
      .batch = 16, .max_rows = 16, .limit_bytes = limit, .resident_bytes = 50};
}

TEST(CandidateRowsTest, AreDivisorsUpToTheMost) {
  EXPECT_THAT(CandidateRows(12, 100), ElementsAre(1, 2, 3, 4, 6, 12));
  EXPECT_THAT(CandidateRows(12, 5), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(CandidateRows(7, 0), ElementsAre(1));
  const auto many = CandidateRows(720, 720);
  EXPECT_LE(many.size(), 8u);
  EXPECT_EQ(many.back(), 720);
}

// A device on which what needs more than `memory` cannot be tried.
absl::StatusOr<MicroBatchPlan> FindOn(FakeDevice& device, int64_t memory,
                                      const MicroBatchSearch& search) {
  return FindMicroBatch(search, [&](const MicroBatch& choice) {
    device.measured.push_back(choice);
    MicroBatchTrial trial{choice};
    trial.peak_bytes = device.resident + device.bytes_a_row /
                                             ShareOf(choice.recompute) *
                                             choice.rows;
    trial.out_of_memory = trial.peak_bytes > memory;
    trial.step_seconds = trial.out_of_memory ? 0 : 1.0 / choice.rows;
    return absl::StatusOr<MicroBatchTrial>(trial);
  });
}

// Not even a row fits without checkpointing, and selectively one: the limit
// knew nothing of what else holds memory.
TEST(FindMicroBatchTest, ATrialThatRunsOutOfMemoryIsAMeasurement) {
  FakeDevice device;
  MicroBatchSearch search = Search(1'000'000);
  search.knows_selective = true;
  const auto plan = *FindOn(device, 50 + 60, search);
  EXPECT_EQ(plan.chosen, (MicroBatch{2, kFull}));
  EXPECT_THAT(device.measured,
              ElementsAre(MicroBatch{1, kNone}, MicroBatch{1, kSelective},
                          MicroBatch{2, kSelective}, MicroBatch{1, kFull},
                          MicroBatch{2, kFull}, MicroBatch{4, kFull}));
  EXPECT_TRUE(plan.trials.front().out_of_memory);
  EXPECT_TRUE(plan.trials.back().out_of_memory);
}

TEST(FindMicroBatchTest, WhereEverythingRunsOutOfMemoryTheLeastIsTaken) {
  FakeDevice device;
  EXPECT_EQ(FindOn(device, 10, Search(1'000'000))->chosen,
            (MicroBatch{1, kFull}));
}

TEST(FindMicroBatchTest, TheEstimateIsAskedBeforeTheFirstTrialOfAKind) {
  FakeDevice device;
  MicroBatchSearch search = Search(1'000);
  search.knows_selective = true;
  search.estimate = [](const MicroBatch& choice) {
    return choice.recompute == kFull ? 900 : 1'001;
  };
  const auto plan = *device.Find(search);
  EXPECT_EQ(plan.chosen, (MicroBatch{16, kFull}));
  EXPECT_EQ(device.measured.front(), (MicroBatch{1, kFull}));
  ASSERT_FALSE(plan.trials[0].tried);
  EXPECT_EQ(plan.trials[0].peak_bytes, 1'001);
  EXPECT_EQ(plan.trials[1].choice, (MicroBatch{1, kSelective}));
}

// It may be wrong; the least is tried whatever it says.
TEST(FindMicroBatchTest, AnEstimateAloneEndsNoJob) {
  FakeDevice device;
  MicroBatchSearch search = Search(1'000);
  search.estimate = [](const MicroBatch&) { return int64_t{1} << 60; };
  const auto plan = *device.Find(search);
  EXPECT_THAT(device.measured, ElementsAre(MicroBatch{1, kFull}));
  EXPECT_EQ(plan.chosen, (MicroBatch{1, kFull}));
}

TEST(FindMicroBatchTest, TakesTheFastestWhereAllFits) {
  FakeDevice device;
  const auto plan = *device.Find(Search(1'000'000));
  EXPECT_EQ(plan.chosen, (MicroBatch{16, kNone}));
  EXPECT_EQ(plan.from, "trial");
  EXPECT_EQ(device.measured.size(), 5u);
}

TEST(FindMicroBatchTest, NeverTriesWhatWouldNotFit) {
  FakeDevice device;
  device.seconds_a_call = 0.1;  // checkpointing gains nothing
  const auto plan = *device.Find(Search(50 + 450));
  EXPECT_EQ(plan.chosen, (MicroBatch{4, kNone}));
  for (const MicroBatch& choice : device.measured) {
    EXPECT_TRUE(choice.recompute != kNone || choice.rows <= 4);
  }
  ASSERT_FALSE(plan.trials[3].tried);
  EXPECT_EQ(plan.trials[3].choice.rows, 8);
  EXPECT_EQ(plan.trials[3].peak_bytes, 50 + 800);
}

TEST(FindMicroBatchTest, CheckpointsWhereMoreRowsAtOnceAreWorthIt) {
  FakeDevice device;  // a call costs as much as ten rows
  const auto plan = *device.Find(Search(50 + 450));
  EXPECT_EQ(plan.chosen, (MicroBatch{16, kFull}));
}

TEST(FindMicroBatchTest, KeepsAsMuchAsFits) {
  FakeDevice device;
  MicroBatchSearch search = Search(50 + 900);
  search.knows_selective = true;
  EXPECT_EQ(device.Find(search)->chosen, (MicroBatch{16, kSelective}));
  for (const MicroBatch& choice : device.measured) {
    EXPECT_NE(choice.recompute, kFull);
  }
  search.limit_bytes = 50 + 450;  // 8 rows selectively, 16 fully
  EXPECT_EQ(device.Find(search)->chosen, (MicroBatch{16, kFull}));
  device.seconds_a_call = 0.2;  // more rows gain less than keeping more
  EXPECT_EQ(device.Find(search)->chosen, (MicroBatch{8, kSelective}));
}

TEST(FindMicroBatchTest, CheckpointingThatTheJobWantsIsKeptTo) {
  for (const spec::Recompute demanded : {kFull, kSelective}) {
    FakeDevice device;
    MicroBatchSearch search = Search(1'000'000);
    search.demanded = demanded;
    search.knows_selective = true;
    EXPECT_EQ(device.Find(search)->chosen, (MicroBatch{16, demanded}));
    for (const MicroBatch& choice : device.measured) {
      EXPECT_EQ(choice.recompute, demanded);
    }
  }
}

TEST(FindMicroBatchTest, OfEqualsTheSmallest) {
  FakeDevice device;
  device.seconds_a_call = 0;
  EXPECT_EQ(device.Find(Search(1'000'000))->chosen, (MicroBatch{1, kNone}));
  EXPECT_EQ(device.measured.size(), 3u);  // two without a gain are enough
}

TEST(FindMicroBatchTest, WhereNothingFitsTheLeastIsTaken) {
  FakeDevice device;
  EXPECT_EQ(device.Find(Search(60))->chosen, (MicroBatch{1, kFull}));
}

TEST(FindMicroBatchTest, AnErrorEndsTheSearch) {
  const auto plan = FindMicroBatch(Search(100), [](const MicroBatch&) {
    return absl::StatusOr<MicroBatchTrial>(absl::NotFoundError("gone"));
  });
  EXPECT_EQ(plan.status().message(), "gone");
}

MicroBatchPlan Plan() {
  return {{4, kFull},
          "trial",
          {{{2, kNone}, 1.5, 300, true},
           {{4, kFull}, 1.25, 200, true},
           {{2, kSelective}, 1.5, 250, false}}};
}

void ExpectPlan(const std::optional<MicroBatchPlan>& plan) {
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->chosen, (MicroBatch{4, kFull}));
  ASSERT_EQ(plan->trials.size(), 3u);
  EXPECT_EQ(plan->trials[0].choice, (MicroBatch{2, kNone}));
  EXPECT_EQ(plan->trials[1].step_seconds, 1.25);
  EXPECT_EQ(plan->trials[1].peak_bytes, 200);
  EXPECT_EQ(plan->trials[2].choice, (MicroBatch{2, kSelective}));
}

TEST(MicroBatchPlanTest, ComesBackFromJson) {
  const auto folder = testing_support::FreshFolder("plan_json");
  const auto read = [&](const std::string& plan, int64_t batch) {
    EXPECT_TRUE(base::WriteFileAtomic(folder / "run.json",
                                      "{\"micro_batch\": " + plan + "}")
                    .ok());
    return ReadPlanOfRun(folder, batch);
  };
  ExpectPlan(read(ToJson(Plan(), 8), 8));
  EXPECT_FALSE(read(ToJson(Plan(), 8), 6).has_value());
  for (const char* text :
       {"", "[]", "{}", R"({"rows": 0})",
        R"({"rows": "4", "gradient_checkpointing": true})"}) {
    EXPECT_FALSE(read(text, 8).has_value()) << text;
  }
}

TEST(MicroBatchPlanTest, IsReadFromARun) {
  const auto folder = testing_support::FreshFolder("run");
  EXPECT_FALSE(ReadPlanOfRun(folder, 8).has_value());
  ASSERT_TRUE(
      base::WriteFileAtomic(folder / "run.json",
                            "{\"micro_batch\": " + ToJson(Plan(), 8) + "}")
          .ok());
  ExpectPlan(ReadPlanOfRun(folder, 8));
}

}  // namespace
}  // namespace mpsd::train
