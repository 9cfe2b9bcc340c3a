// SPDX-License-Identifier: Apache-2.0
#include "client/record_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/client/some_records.h"

namespace mpsd::client {
namespace {

std::map<std::string, std::string> Rows(const v1::Record& record) {
  std::map<std::string, std::string> rows;
  for (const RecordSection& section :
       DescribeRecord(record, absl::UTCTimeZone())) {
    for (const RecordRow& row : section.rows) {
      rows[section.title + "/" + row.name] = row.value;
    }
  }
  return rows;
}

TEST(RecordText, TellsWhatIsTold) {
  auto rows = Rows(SomeRecord("A"));
  EXPECT_EQ(rows["RUN/state"], "SUCCEEDED, Done");
  EXPECT_EQ(rows["ENVIRONMENT/torch"], "2.6.0");
  EXPECT_EQ(rows["SHAPE/peak device memory"], "4.0 GB");
  EXPECT_EQ(rows["SHAPE/CPU fallback"], "allowed");
  EXPECT_EQ(rows["CONDITIONS/thermal"], "nominal, heavy");
  EXPECT_EQ(rows["CONDITIONS/pauses"], "2, 1m30s");
  EXPECT_EQ(rows["DURATIONS/steady step"], "0.25s");
  EXPECT_EQ(rows["RESULTS/eval loss"], "1.2500");
}

TEST(RecordText, WhatIsNotToldHasNoMadeUpValue) {
  v1::Record record;
  record.set_kind(v1::JOB_KIND_TRAINING);
  record.set_state(v1::JOB_STATE_CANCELLED);
  auto rows = Rows(record);
  for (const char* name :
       {"ENVIRONMENT/torch", "ENVIRONMENT/file systems",
        "SHAPE/peak device memory", "SHAPE/worker's peak footprint",
        "CONDITIONS/power", "CONDITIONS/Low Power Mode", "CONDITIONS/swap",
        "CONDITIONS/others at the machine", "CONDITIONS/round trip",
        "CONDITIONS/pauses", "DURATIONS/load", "DURATIONS/steady step"}) {
    ASSERT_TRUE(rows.contains(name)) << name;
    EXPECT_EQ(rows[name], "") << name;
  }
  EXPECT_FALSE(rows.contains("RESULTS/eval loss"));
  record.mutable_pauses();
  record.mutable_conditions()->set_low_power_mode(false);
  rows = Rows(record);
  EXPECT_EQ(rows["CONDITIONS/pauses"], "none");
  EXPECT_EQ(rows["CONDITIONS/Low Power Mode"], "off");
}

// Nobody takes the machine's memory for the device's.
TEST(RecordText, ARunOnTheCpuTellsItsProcess) {
  v1::Record record = SomeRecord("A");
  record.mutable_memory()->Clear();
  record.mutable_memory()->set_peak_footprint_bytes(70'000'000);
  record.mutable_memory()->set_footprint_bytes(60'000'000);
  record.mutable_durations()->set_round_trip_seconds(0.0213);
  auto rows = Rows(record);
  EXPECT_EQ(rows["SHAPE/peak device memory"], "");
  EXPECT_EQ(rows["SHAPE/worker's peak footprint"], "70.0 MB");
  EXPECT_EQ(rows["SHAPE/worker's last footprint"], "60.0 MB");
  EXPECT_EQ(rows["CONDITIONS/round trip"], "21.3 ms");
}

TEST(RecordText, Words) {
  EXPECT_EQ(RecordKindName(SomeRecord("A")), "training");
  EXPECT_EQ(RecordKindName(SomeEntry("E", "x")), "note");
  EXPECT_EQ(RecordTitle(SomeEntry("E", "text")), "text");
  EXPECT_EQ(RecordTitle(v1::Record()), "");
  v1::Record record;
  EXPECT_EQ(RecordVerdict(record), "-");
  record.set_verdict(v1::VERDICT_WARN);
  EXPECT_EQ(RecordVerdict(record), "warn");
  record.set_kind(static_cast<v1::JobKind>(77));
  EXPECT_EQ(RecordKindName(record), "kind 77");
}

}  // namespace
}  // namespace mpsd::client
