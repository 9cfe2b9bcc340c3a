// SPDX-License-Identifier: Apache-2.0
#include "client/text/format.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mpsd::client {
namespace {

TEST(FormatTest, States) {
  EXPECT_EQ(StateName(v1::JOB_STATE_QUEUED), "QUEUED");
  EXPECT_EQ(StateName(v1::JOB_STATE_UNSPECIFIED), "UNSPECIFIED");
  EXPECT_EQ(StateName(static_cast<v1::JobState>(99)), "?");
  EXPECT_TRUE(IsFinal(v1::JOB_STATE_FAILED));
  EXPECT_FALSE(IsFinal(v1::JOB_STATE_RUNNING));
}

TEST(FormatTest, Kinds) {
  EXPECT_EQ(KindName(v1::JOB_KIND_UNSPECIFIED), "training");
  EXPECT_EQ(KindName(v1::JOB_KIND_TRAINING), "training");
  EXPECT_EQ(KindName(v1::JOB_KIND_BATCH_SWEEP), "batch sweep");
  EXPECT_EQ(KindName(static_cast<v1::JobKind>(99)), "kind 99");
  EXPECT_FALSE(IsStudy(v1::JOB_KIND_UNSPECIFIED));
  EXPECT_FALSE(IsStudy(v1::JOB_KIND_TRAINING));
  EXPECT_TRUE(IsStudy(v1::JOB_KIND_SMOKE));
}

TEST(FormatTest, SecondsInTheUnitThatFits) {
  EXPECT_EQ(Seconds(0), "0.0s");
  EXPECT_EQ(Seconds(9.94), "9.9s");
  EXPECT_EQ(Seconds(9.96), "10s");
  EXPECT_EQ(Seconds(59.6), "1m00s");
  EXPECT_EQ(Seconds(80), "1m20s");
  EXPECT_EQ(Seconds(3 * 3600 + 5 * 60), "3h05m");
  EXPECT_EQ(Seconds(86400 * 2 + 4 * 3600), "2d04h");
  EXPECT_EQ(Seconds(-1), "-");
  EXPECT_EQ(Seconds(std::nan("")), "-");
}

TEST(FormatTest, BytesByThousands) {
  EXPECT_EQ(Bytes(0), "0 B");
  EXPECT_EQ(Bytes(999), "999 B");
  EXPECT_EQ(Bytes(1000), "1.0 kB");
  EXPECT_EQ(Bytes(999'949), "999.9 kB");
  EXPECT_EQ(Bytes(999'950), "1.0 MB");
  EXPECT_EQ(Bytes(12'345'678'901), "12.3 GB");
  EXPECT_EQ(Bytes(5'000'000'000'000'000), "5000.0 TB");
}

TEST(FormatTest, CountsWithCommas) {
  EXPECT_EQ(Count(0), "0");
  EXPECT_EQ(Count(999.6), "1,000");
  EXPECT_EQ(Count(1234567), "1,234,567");
  EXPECT_EQ(Count(-1234), "-1,234");
  EXPECT_EQ(Count(INFINITY), "-");
}

TEST(FormatTest, Times) {
  google::protobuf::Timestamp stamp;
  stamp.set_seconds(1767323045);
  stamp.set_nanos(500'000'000);
  EXPECT_EQ(DateTime(ToTime(stamp), absl::UTCTimeZone()),
            "2026-01-02 03:04:05");
  EXPECT_EQ(absl::ToUnixMillis(ToTime(stamp)), 1767323045500);
}

TEST(FormatTest, CutsBetweenCharacters) {
  EXPECT_EQ(Width("naïve"), 5);
  EXPECT_EQ(Cut("naïve", 5), "naïve");
  EXPECT_EQ(Cut("naïve", 4), "naï…");
  EXPECT_EQ(Cut("naïve", 1), "…");
  EXPECT_EQ(Cut("naïve", 0), "");
}

TEST(FormatTest, WideCharactersTakeTwoColumns) {
  EXPECT_EQ(Width("気分🚀x"), 7);
  EXPECT_EQ(Cut("気分🚀x", 7), "気分🚀x");
  EXPECT_EQ(Cut("気分🚀x", 6), "気分…");
  EXPECT_EQ(Cut("気分🚀x", 2), "…");
  EXPECT_EQ(Width("שלום ━█⠿◆"), 9);
}

TEST(FormatTest, FittedToAScreen) {
  EXPECT_EQ(Fitted("naïve\x1b[2J\n\u202e", 40, true), "naïve\\x1b[2J \\u202e");
  EXPECT_EQ(Fitted("naïve", 4, true), "naï…");
  EXPECT_EQ(Fitted("naïve気\x07", 40, false), "na?ve?\\x07");
  EXPECT_EQ(Fitted("naïve", 4, false), "na?v");
  EXPECT_EQ(Fitted("naïve", 0, false), "");
}

TEST(FormatTest, NothingSteersTheTerminal) {
  EXPECT_EQ(Printable("a\x1b[2Jb\nc\td"), "a\\x1b[2Jb c d");
  EXPECT_EQ(Printable("\u009b\u202e\xff"), "\\u009b\\u202e\\xff");
  EXPECT_EQ(PrintableLines("a\nb\x07"), "a\n    b\\x07");
  EXPECT_EQ(Printable("naïve"), "naïve");
}

}  // namespace
}  // namespace mpsd::client
