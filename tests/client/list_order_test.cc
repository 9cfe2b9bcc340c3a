// SPDX-License-Identifier: Apache-2.0
#include "client/list_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace mpsd::client {
namespace {

using ::testing::ElementsAre;

TEST(ParseSort, ReadsWordsAndTheirWay) {
  const auto keys = ParseSort("name, -eval_loss,STATE");
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_THAT(*keys, ElementsAre(SortKey{v1::JOB_ORDER_NAME, true},
                                 SortKey{v1::JOB_ORDER_EVAL_LOSS, false},
                                 SortKey{v1::JOB_ORDER_STATE, true}));
  EXPECT_THAT(
      SortNames(),
      testing::IsSupersetOf({"create_time", "end_time", "name", "owner",
                             "state", "priority", "eval_loss", "device_seconds",
                             "stored_bytes", "train_loss", "accuracy"}));
  for (const std::string& name : SortNames()) {
    EXPECT_TRUE(ParseSort("-" + name).ok()) << name;
  }
}

TEST(ParseSort, AMetricHasItsOwnDirection) {
  const auto keys = ParseSort("accuracy,-accuracy,mse,metrics.my_f1,name");
  ASSERT_TRUE(keys.ok()) << keys.status();
  const auto none = v1::JOB_ORDER_UNSPECIFIED;
  EXPECT_THAT(*keys, ElementsAre(SortKey{none, false, "accuracy"},
                                 SortKey{none, true, "accuracy"},
                                 SortKey{none, true, "mse"},
                                 SortKey{none, false, "my_f1"},
                                 SortKey{v1::JOB_ORDER_NAME, true}));
}

TEST(ParseSort, NamesWhatIsNoKey) {
  for (const char* bad : {"", "-", "metrics.", "colour", "name,", "--name",
                          "unspecified", "x\x1b"}) {
    const auto keys = ParseSort(bad);
    EXPECT_EQ(keys.status().code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_EQ(keys.status().message().find('\x1b'), std::string::npos);
  }
}

// Each order, both ways, with a job that has no value and with equal ones.
TEST(SortBy, FollowsEachKey) {
  std::vector<v1::Job> jobs(4);
  for (int i = 0; i < 4; ++i) {
    v1::Job& job = jobs[i];
    const int value = i == 2 ? 0 : i;  // 0 1 0 and 3
    job.set_id(std::to_string(i));
    job.mutable_create_time()->set_nanos(value * 1000);
    if (i != 1) job.mutable_end_time()->set_seconds(value);
    job.set_name(
        std::string(1, static_cast<char>((i % 2 ? 'A' : 'a') + value)));
    job.set_owner(std::to_string(value));
    job.set_state(static_cast<v1::JobState>(value + 1));
    job.set_priority(value - 1);
    job.set_eval_loss_after(i == 1 ? std::numeric_limits<double>::quiet_NaN()
                                   : value);
    job.set_device_seconds(value * 0.5);
    job.set_stored_bytes(value);
  }
  std::vector<std::string> names = SortNames();
  // Those of metrics have no values here: list_test.cc.
  names.erase(std::find(names.begin(), names.end(), "train_loss"), names.end());
  for (const std::string& name : names) {
    for (const char* way : {"", "-"}) {
      std::vector<v1::Job> sorted = jobs;
      SortBy(*ParseSort(way + name), sorted);
      std::string ids;
      for (const v1::Job& job : sorted) ids += job.id();
      const bool without = name == "end_time" || name == "eval_loss";
      EXPECT_EQ(ids, *way == '-' ? (without ? "3021" : "3102")
                     : without   ? "0231"
                                 : "0213")
          << way << name;
    }
    const SortKey key = (*ParseSort(name))[0];
    EXPECT_TRUE(AreEqual(jobs[0], jobs[2], key)) << name;
    EXPECT_FALSE(AreEqual(jobs[0], jobs[3], key)) << name;
  }
}

}  // namespace
}  // namespace mpsd::client
