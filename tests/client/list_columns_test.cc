// SPDX-License-Identifier: Apache-2.0
#include "client/list_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mpsd::client {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kNow = absl::FromUnixSeconds(1767323045);

v1::Job Example() {
  v1::Job job;
  job.set_id("01J");
  job.set_name("moods");
  job.set_state(v1::JOB_STATE_RUNNING);
  job.mutable_create_time()->set_seconds(1767323045 - 90);
  job.mutable_progress()->set_step(3);
  job.mutable_progress()->set_total_steps(10);
  job.mutable_progress()->set_loss(0.25);
  job.mutable_progress()->mutable_memory()->set_footprint_bytes(2'000'000);
  job.set_stored_bytes(3'500'000);
  job.set_device_seconds(75);
  job.set_pinned(true);
  job.add_after("01A");
  job.add_after("01B");
  (*job.mutable_labels())["a.b"] = "x";
  (*job.mutable_labels())["team"] = "nlp";
  (*job.mutable_metrics())["f1"] = 0.5;
  return job;
}

std::string Cell(const std::string& name, const v1::Job& job) {
  const auto column = ListColumn::Parse(name);
  EXPECT_TRUE(column.ok()) << column.status();
  return column->Cell(ListRow(job, kNow), absl::UTCTimeZone());
}

TEST(ListColumn, ShowsPeopleEachKindOfValue) {
  const v1::Job job = Example();
  EXPECT_EQ(Cell("id", job), "01J");
  EXPECT_EQ(Cell("state", job), "RUNNING");
  EXPECT_EQ(Cell("age", job), "1m30s");
  EXPECT_EQ(Cell("create_time", job), "2026-01-02 03:02:35");
  EXPECT_EQ(Cell("end_time", job), "-");
  EXPECT_EQ(Cell("step", job), "3/10");
  EXPECT_EQ(Cell("progress.step", job), "3");
  EXPECT_EQ(Cell("loss", job), "0.2500");
  EXPECT_EQ(Cell("eval_loss", job), "-");
  EXPECT_EQ(Cell("stored_bytes", job), "3.5 MB");
  EXPECT_EQ(Cell("progress.memory.footprint_bytes", job), "2.0 MB");
  EXPECT_EQ(Cell("device_seconds", job), "1m15s");
  EXPECT_EQ(Cell("pinned", job), "yes");
  EXPECT_EQ(Cell("after", job), "01A, 01B");
  EXPECT_EQ(Cell("labels", job), "a.b=x, team=nlp");
  EXPECT_EQ(Cell("labels.a.b", job), "x");
  EXPECT_EQ(Cell("labels.none", job), "-");
  EXPECT_EQ(Cell("metrics.f1", job), "0.5");
  EXPECT_EQ(Cell("owner", job), "-");
}

TEST(ListColumn, AStudyIsNamedByItsKind) {
  v1::Job job = Example();
  job.set_kind(v1::JOB_KIND_SMOKE);
  EXPECT_EQ(Cell("name", job), "moods (smoke)");
  job.clear_name();
  EXPECT_EQ(Cell("name", job), "(smoke)");
}

TEST(ListColumn, GivesProgramsTheValues) {
  const v1::Job job = Example();
  const ListRow row(job, kNow);
  const auto value = [&row](const std::string& name) {
    return ListColumn::Parse(name)->Value(row).dump();
  };
  EXPECT_EQ(value("age"), "90");
  EXPECT_EQ(value("step"), "3");
  EXPECT_EQ(value("eval_loss"), "null");
  EXPECT_EQ(value("stored_bytes"), "3500000");
  EXPECT_EQ(value("create_time"), "\"2026-01-02T03:02:35Z\"");
  EXPECT_EQ(value("labels.a.b"), "\"x\"");
  EXPECT_EQ(value("best_evaluation.step"), "null");
}

TEST(ListColumn, KnowsItsNames) {
  const std::vector<std::string> names = ListColumn::Names();
  EXPECT_THAT(names, AllOf(Contains("id"), Contains("age"),
                           Contains("progress.memory.footprint_bytes"),
                           Contains("best_evaluation.eval_loss"),
                           Contains("hold"), Contains("model")));
  EXPECT_THAT(names,
              AllOf(Not(Contains("spec_json")), Not(Contains("warnings")),
                    Not(Contains("create_time.seconds"))));
  for (const std::string& name : names) {
    EXPECT_NE(Cell(name, v1::Job()), "?") << name;
  }
  for (const char* bad : {"", "idd", "labels.", "progress", "id.x", "spec",
                          "progress.steps", "\x1b[2J"}) {
    const auto column = ListColumn::Parse(bad);
    EXPECT_EQ(column.status().code(), absl::StatusCode::kInvalidArgument)
        << bad;
    EXPECT_THAT(std::string(column.status().message()),
                AllOf(HasSubstr("is no column"), Not(HasSubstr("\x1b"))));
  }
}

TEST(ParseColumns, DividesAtCommas) {
  const auto columns = ParseColumns("id, labels.a b,age");
  ASSERT_TRUE(columns.ok()) << columns.status();
  ASSERT_EQ(columns->size(), 3u);
  EXPECT_EQ((*columns)[1].name(), "labels.a b");
  EXPECT_EQ((*columns)[1].heading(), "LABELS.A B");
  EXPECT_FALSE(ParseColumns("id,").ok());
}

}  // namespace
}  // namespace mpsd::client
