// SPDX-License-Identifier: Apache-2.0
#include "core/plan/alternatives.h"

#include <set>

#include "core/backend/traits.h"
#include "core/plan/chips.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/plan/jobs.h"

namespace mpsd::plan {
namespace {

using testing::Contains;
using testing::HasSubstr;

class AlternativesTest : public testing::Test {
 protected:
  std::vector<Alternative> Find(int64_t limit) const {
    const JobRows rows{.train = &rows_};
    const data::BatchShapes shapes(spec_, model_, traits_, "mps");
    const Epoch epoch = CountEpoch(
        rows_, shapes.TrainOptions(spec_.training.per_device_train_batch_size));
    const StepTimes times({spec_, model_, traits_, epoch, 1024, 1.0}, &rates_,
                          {});
    return FindAlternatives({spec_, model_, traits_, rows, times, 2}, limit);
  }
  int64_t Bytes() const {
    return MemoryOf(spec_, model_, traits_, {.train = &rows_})
        .parts.total_bytes;
  }
  // The job with the alternative's fields, through the parser.
  spec::TrainSpec Patched(const Alternative& a) const {
    nlohmann::json job = nlohmann::json::parse(spec::ToJson(spec_));
    job.merge_patch(a.patch);
    job["model"] = "m";
    job["dataset"]["train"] = {"t"};
    const auto spec = spec::ParseTrainSpec(job.dump(), "job.json");
    EXPECT_TRUE(spec.ok()) << spec.status() << a.patch;
    return spec.ok() ? *spec : spec_;
  }

  spec::TrainSpec spec_ = LoraJob();
  const spec::ModelConfig model_ = HalfBillion();
  const backend::Traits& traits_ = backend::TraitsOf(backend::Choice::kMps);
  const CountedRows rows_ = RowsUpTo(1024);
  const Rates rates_ = RatesOf(*FindChip("Apple M2 Max", 38));
};

TEST_F(AlternativesTest, EachFitsAndIsAJobThatTheParserTakes) {
  for (const double share : {0.9, 0.6, 0.4, 0.3}) {
    const int64_t limit = static_cast<int64_t>(share * Bytes());
    const auto found = Find(limit);
    ASSERT_FALSE(found.empty()) << share;
    EXPECT_LE(found.size(), kMostAlternatives);
    std::set<std::string> patches;
    for (const Alternative& a : found) {
      EXPECT_LE(a.memory_bytes, limit);
      EXPECT_TRUE(patches.insert(a.patch.dump()).second) << a.patch;
      EXPECT_FALSE(a.changes.empty());
      EXPECT_GT(a.train_seconds.value_or(0), 0);
      const spec::TrainSpec patched = Patched(a);
      EXPECT_EQ(MemoryOf(patched, model_, traits_, {.train = &rows_})
                    .parts.total_bytes,
                a.memory_bytes)
          << a.patch;
    }
  }
}

TEST_F(AlternativesTest, TheFirstChangesLeastAndKeepsTheBatch) {
  const Alternative first = Find(Bytes() - 1).front();
  const spec::TrainingSpec t = Patched(first).training;
  EXPECT_EQ(t.per_device_train_batch_size * t.gradient_accumulation_steps, 8);
  EXPECT_EQ(t.max_length, 1024);
  EXPECT_EQ(first.note, "");
}

TEST_F(AlternativesTest, AShorterLengthSaysWhatItCuts) {
  const auto found = Find(static_cast<int64_t>(0.6 * Bytes()));
  std::vector<std::string> notes;
  for (const Alternative& a : found) notes.push_back(a.note);
  EXPECT_THAT(notes, Contains(HasSubstr("% of the rows are cut to")));
}

TEST_F(AlternativesTest, FourBitsWhereTheBaseIsWhatDoesNotFit) {
  spec_.training.set_recompute(spec::Recompute::kFull);
  spec_.training.per_device_train_batch_size = 1;
  spec_.training.max_length = 64;
  const auto found = Find(static_cast<int64_t>(0.75 * Bytes()));
  ASSERT_FALSE(found.empty());
  EXPECT_THAT(found.front().changes, Contains(HasSubstr("4 bits")));
  EXPECT_TRUE(Patched(found.front()).quantization_config.load_in_4bit);
}

TEST_F(AlternativesTest, NothingHelpsWhereTheBaseAloneIsTooLarge) {
  EXPECT_TRUE(Find(1000).empty());
}

// A classifier has no selective recomputation and no quantised base.
TEST_F(AlternativesTest, OnlyWhatTheTaskHas) {
  spec_.fine_tune_type = spec::FineTuneType::kFull;
  for (const Alternative& a : Find(Bytes() / 2)) {
    EXPECT_FALSE(a.patch.contains("quantization_config")) << a.patch;
    EXPECT_NE(a.patch["training"].value("recompute_granularity", ""),
              "selective");
  }
}

}  // namespace
}  // namespace mpsd::plan
