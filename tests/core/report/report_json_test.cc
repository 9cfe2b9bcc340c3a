// SPDX-License-Identifier: Apache-2.0
#include "core/report/report_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/core/status_matchers.h"

namespace mpsd::report {
namespace {

using testing_support::Fails;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <typename T>
Json Written(const T& value) {
  Json object = Json::object();
  JsonWriter writer(object);
  Fields(writer, value, &value);
  return object;
}

template <typename T>
absl::Status ReadInto(const Json& object, JsonReader::Missing missing,
                      T& value) {
  JsonReader reader(object, "there", missing);
  Fields(reader, value, &value);
  return reader.status();
}

// What is written, read and written again is the same text.
template <typename T>
void ExpectComesBack(const T& value) {
  const Json object = Written(value);
  T read;
  const absl::Status status =
      ReadInto(object, JsonReader::Missing::kError, read);
  ASSERT_TRUE(status.ok()) << status << " " << object;
  EXPECT_EQ(Dump(Written(read)), Dump(object));
}

TEST(ReportJson, EveryReportComesBackAsWritten) {
  Progress progress;
  progress.loss = kNan;
  progress.padded_tokens = 3;
  progress.data_wait_seconds = 0.25;
  progress.memory = {1, 2, 3, 4, 5};
  progress.cpu_fallback_ops = {{"aten::a", 2}};
  ExpectComesBack(Progress());
  ExpectComesBack(progress);
  ExpectComesBack(Evaluated{1, 2, 3, 4, {{"z", 1}, {"a", kNan}}, true});
  ExpectComesBack(Checkpointed{1, "/p", 2, 3, {"/q", "/r"}});
  ExpectComesBack(Outcome{1, "/p", OutputKind::kModel, 2, 3, 4, 5, {}, "{}"});
  ExpectComesBack(Failure{FailureKind::kNonFinite, "why", 5});
  ExpectComesBack(Stopped{StopReason::kCancel, 3});
}

TEST(ReportJson, WhatIsAbsentIsLeftOutAndABadByteReplaced) {
  const Json object = Written(Progress());
  EXPECT_FALSE(object.contains("padded_tokens"));
  EXPECT_FALSE(object.contains("cpu_fallback_ops"));
  EXPECT_EQ(object["memory"], Json::object());
  Progress read;
  ASSERT_TRUE(ReadInto(object, JsonReader::Missing::kError, read).ok());
  EXPECT_FALSE(read.padded_tokens.has_value());
  EXPECT_FALSE(read.memory.footprint_bytes.has_value());
  EXPECT_EQ(Dump(Written(Failure{FailureKind::kInternal, "a\xff"})),
            "{\"kind\":\"internal\",\"message\":\"a\uFFFD\"}");
}

TEST(ReportJson, AMissingMemberIsAnErrorOrItsDefault) {
  Stopped stopped{StopReason::kCancel, 7};
  const Json object = {{"reason", "preempt"}, {"unknown", 1}};
  EXPECT_THAT(ReadInto(object, JsonReader::Missing::kError, stopped),
              Fails(absl::StatusCode::kInvalidArgument,
                    testing::StrEq("there: field 'step' is missing")));
  Stopped other;
  ASSERT_TRUE(ReadInto(object, JsonReader::Missing::kDefault, other).ok());
  EXPECT_EQ(other.step, 0);
  Json empty = Json::object();
  ASSERT_TRUE(ReadInto(empty, JsonReader::Missing::kDefault, other).ok());
  EXPECT_EQ(other.reason, StopReason::kPreempt);
}

TEST(ReportJson, AnIllTypedMemberIsAnErrorEitherWay) {
  struct Bad {
    const char* text;
    const char* message;
  };
  for (const auto& [text, message] :
       {Bad{R"({"step":"1"})", "field 'step' must be a 64-bit integer"},
        Bad{R"({"step":18446744073709551615})", "must be a 64-bit integer"},
        Bad{R"({"loss":true})", "field 'loss' must be a number or null"},
        Bad{R"({"device":1})", "field 'device' must be a string"},
        Bad{R"({"memory":{"footprint_bytes":0.5}})",
            "there.memory: field 'footprint_bytes' must be"},
        Bad{R"({"cpu_fallback_ops":[]})", "must be an object"},
        Bad{R"({"padded_tokens":null})", "must be a 64-bit integer"}}) {
    Progress progress;
    EXPECT_THAT(
        ReadInto(Json::parse(text), JsonReader::Missing::kDefault, progress),
        Fails(absl::StatusCode::kInvalidArgument, message))
        << text;
  }
}

TEST(ReportJson, AFlagIsThereWhereItIsTrue) {
  Json object = Json::object();
  JsonWriter writer(object);
  writer("yes", true);
  writer("no", false);
  EXPECT_EQ(Dump(object), R"({"yes":true})");
  bool yes = false, no = false, bad = false;
  JsonReader reader(object, "there", JsonReader::Missing::kError);
  reader("yes", yes);
  reader("no", no);
  EXPECT_TRUE(reader.status().ok());
  EXPECT_TRUE(yes);
  EXPECT_FALSE(no);
  object["bad"] = 1;
  reader("bad", bad);
  EXPECT_EQ(reader.status().message(),
            "there: field 'bad' must be true or false");
}

}  // namespace
}  // namespace mpsd::report
