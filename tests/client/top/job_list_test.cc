// SPDX-License-Identifier: Apache-2.0
#include "client/top/job_list.h"

#include <gtest/gtest.h>

namespace mpsd::client::top {
namespace {

JobRow Row(const std::string& id, v1::JobState state) {
  JobRow row;
  row.id = id;
  row.name = "job " + id;
  row.state = state;
  return row;
}

JobRow Queued(const std::string& id, int position) {
  JobRow row = Row(id, v1::JOB_STATE_QUEUED);
  row.queue_position = position;
  return row;
}

std::string Ids(const JobList& list) {
  std::string ids;
  for (size_t i = 0; i < list.size(); ++i) ids += list.at(i).id;
  return ids;
}

JobList Five() {
  JobList list;
  list.Replace({Row("a", v1::JOB_STATE_SUCCEEDED), Queued("b", 1),
                Row("c", v1::JOB_STATE_RUNNING), Queued("d", 0),
                Row("e", v1::JOB_STATE_FAILED)},
               false);
  return list;
}

TEST(JobList, PutsTheRunningJobBeforeTheQueueAndEndedOnesLast) {
  JobList list = Five();
  EXPECT_EQ(Ids(list), "cdbea");
  EXPECT_EQ(list.selected()->id, "c");
  EXPECT_EQ(list.total(), 5u);
  list.Reverse();
  EXPECT_EQ(Ids(list), "aebdc");
}

TEST(JobList, SortsByEveryKey) {
  JobList list;
  JobRow a = Row("a", v1::JOB_STATE_RUNNING), b = Queued("b", 0),
         c = Queued("c", 1);
  a.created = absl::FromUnixSeconds(3);
  b.created = absl::FromUnixSeconds(1);
  c.created = absl::FromUnixSeconds(2);
  a.name = "y", b.name = "z", c.name = "x";
  a.owner = "bob", b.owner = "ann", c.owner = "bob";
  a.total_steps = b.total_steps = 10;
  a.step = 2, b.step = 8;
  a.loss = 2, b.loss = 1;
  list.Replace({c, b, a}, false);
  const char* expected[] = {"abc", "acb", "cab", "bac", "bac", "bac"};
  for (const char* ids : expected) {
    EXPECT_EQ(Ids(list), ids) << SortName(list.order());
    list.ChangeOrder(1);
  }
  EXPECT_EQ(list.order(), SortKey::kQueue);
  list.ChangeOrder(-1);
  EXPECT_EQ(list.order(), SortKey::kLoss);
  EXPECT_EQ(SortName(list.order()), "loss");
}

TEST(JobList, FiltersByEveryWord) {
  JobList list;
  JobRow a = Row("01AA", v1::JOB_STATE_RUNNING);
  a.name = "Moods of ann";
  a.owner = "ann";
  JobRow b = Queued("01BB", 0);
  b.name = "moods";
  b.owner = "bob";
  list.Replace({a, b}, false);
  for (const auto& [filter, ids] :
       std::vector<std::pair<std::string, std::string>>{{"", "01AA01BB"},
                                                        {"MOODS", "01AA01BB"},
                                                        {"moods bob", "01BB"},
                                                        {"bob moods", "01BB"},
                                                        {"1aa", "01AA"},
                                                        {"queued", "01BB"},
                                                        {"bob run", ""},
                                                        {"  ", "01AA01BB"}}) {
    list.SetFilter(filter);
    EXPECT_EQ(Ids(list), ids) << filter;
  }
  list.SetFilter("none");
  EXPECT_EQ(list.selected(), nullptr);
  list.Move(1);
  EXPECT_EQ(list.selected(), nullptr);
}

TEST(JobList, HidesEndedJobs) {
  JobList list = Five();
  list.HideEnded(true);
  EXPECT_EQ(Ids(list), "cdb");
  EXPECT_TRUE(list.hides_ended());
  list.HideEnded(false);
  EXPECT_EQ(list.size(), 5u);
}

TEST(JobList, MovesWithinTheList) {
  JobList list = Five();
  list.Move(-3);
  EXPECT_EQ(list.selected()->id, "c");
  list.Move(2);
  EXPECT_EQ(list.selected()->id, "b");
  list.Move(1 << 30);
  EXPECT_EQ(list.selected()->id, "a");
  list.Move(-(1 << 30));
  EXPECT_EQ(list.selected()->id, "c");
}

TEST(JobList, KeepsTheSelectedJobHoweverTheListChanges) {
  JobList list = Five();
  list.Move(2);
  ASSERT_EQ(list.selected()->id, "b");
  list.Reverse();
  EXPECT_EQ(list.selected()->id, "b");
  EXPECT_EQ(list.selected_index(), 2u);
  JobRow first = Queued("b", 0);
  list.Update(first);
  EXPECT_EQ(list.selected()->id, "b");
  list.Replace({Queued("b", 0), Queued("z", 1)}, false);
  EXPECT_EQ(list.selected()->id, "b");
  EXPECT_EQ(list.selected_index(), 1u);
}

TEST(JobList, SelectsTheNeighbourOfAJobThatIsGone) {
  JobList list = Five();
  list.Move(2);
  list.Replace({Row("c", v1::JOB_STATE_RUNNING), Queued("d", 0)}, false);
  EXPECT_EQ(list.selected()->id, "d");
  list.Replace({}, false);
  EXPECT_EQ(list.selected(), nullptr);
  list.Replace({Queued("d", 0)}, false);
  EXPECT_EQ(list.selected()->id, "d");
}

TEST(JobList, StaysAtTheTopUntilAnythingIsSelected) {
  JobList list = Five();
  list.Replace({Row("z", v1::JOB_STATE_RUNNING), Queued("c", 0)}, true);
  EXPECT_EQ(list.selected()->id, "z");
  EXPECT_TRUE(list.more());
  list.Select("c");
  EXPECT_EQ(list.selected_index(), 1u);
}

TEST(JobList, UpdatesOneRow) {
  JobList list = Five();
  JobRow row = Row("d", v1::JOB_STATE_RUNNING);
  list.Update(row);
  EXPECT_EQ(Ids(list), "cdbea");
  EXPECT_EQ(list.at(1).state, v1::JOB_STATE_RUNNING);
  list.Update(Row("f", v1::JOB_STATE_RUNNING));  // new
  EXPECT_EQ(Ids(list), "cdfbea");
}

TEST(JobList, RefreshesARowInItsPlace) {
  JobList list = Five();
  while (list.order() != SortKey::kProgress) list.ChangeOrder(1);
  JobRow row = Row("e", v1::JOB_STATE_RUNNING);
  row.step = row.total_steps = 10;
  const std::string before = Ids(list);
  list.Refresh(row);
  EXPECT_EQ(Ids(list), before);
  list.Update(row);
  EXPECT_EQ(Ids(list).front(), 'e');
  list.Refresh(Row("new", v1::JOB_STATE_QUEUED));
  EXPECT_EQ(list.total(), 5u);
}

}  // namespace
}  // namespace mpsd::client::top
