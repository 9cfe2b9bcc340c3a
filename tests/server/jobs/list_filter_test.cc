// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <iterator>
#include <limits>

#include "core/base/limits.h"
#include "core/base/printable.h"
#include "gtest/gtest.h"
#include "server/jobs/job_store.h"

namespace mpsd::jobs {
namespace {

Job Example() {
  Job job;
  job.id = "01J";
  job.name = "moods";
  job.owner = "ann";
  job.state = State::kFailed;
  job.priority = -3;
  job.end_time = absl::FromUnixMicros(77);
  job.eval_loss_after = 0.25;
  job.device_time = absl::Seconds(2);
  job.stored_bytes = 9;
  return job;
}

TEST(PlaceOf, IsTheValueOfTheOrder) {
  const Job job = Example();
  EXPECT_EQ(PlaceOf(job, ListOrder::kCreated), (ListPlace{"01J", {}}));
  EXPECT_EQ(PlaceOf(job, ListOrder::kEndTime), (ListPlace{"01J", int64_t{77}}));
  EXPECT_EQ(PlaceOf(job, ListOrder::kName), (ListPlace{"01J", "moods"}));
  EXPECT_EQ(PlaceOf(job, ListOrder::kOwner), (ListPlace{"01J", "ann"}));
  EXPECT_EQ(PlaceOf(job, ListOrder::kState), (ListPlace{"01J", int64_t{4}}));
  EXPECT_EQ(PlaceOf(job, ListOrder::kPriority),
            (ListPlace{"01J", int64_t{-3}}));
  EXPECT_EQ(PlaceOf(job, ListOrder::kEvalLoss), (ListPlace{"01J", 0.25}));
  EXPECT_EQ(PlaceOf(job, ListOrder::kDeviceTime),
            (ListPlace{"01J", int64_t{2'000'000}}));
  EXPECT_EQ(PlaceOf(job, ListOrder::kStoredBytes),
            (ListPlace{"01J", int64_t{9}}));
  EXPECT_EQ(std::size(kAllListOrders), 9u);
}

TEST(PlaceOf, AJobWithoutAValueSaysSo) {
  Job job;
  EXPECT_EQ(PlaceOf(job, ListOrder::kEndTime).value.index(), 0u);
  EXPECT_EQ(PlaceOf(job, ListOrder::kEvalLoss).value.index(), 0u);
  job.eval_loss_after = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(PlaceOf(job, ListOrder::kEvalLoss).value.index(), 0u);
}

// A summary's name may be cut; its place is that of the whole name.
TEST(PlaceOf, ACutNameHasTheSamePlace) {
  for (const char* character : {"n", "é", "感", "😀"}) {
    Job whole;
    for (int i = 0; i < 200; ++i) whole.name += character;
    Job cut = whole;
    cut.name = base::Shortened(cut.name, limits::kNameBytes);
    const ListPlace place = PlaceOf(whole, ListOrder::kName);
    EXPECT_EQ(PlaceOf(cut, ListOrder::kName), place);
    EXPECT_EQ(std::get<std::string>(place.value).size(),
              kOrderedCharacters * std::string(character).size());
  }
}

}  // namespace
}  // namespace mpsd::jobs
