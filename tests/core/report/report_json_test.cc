// SPDX-License-Identifier: Apache-2.0
#include "core/report/report_json.h"

#include "tests/core/status_matchers.h"

namespace mpsd::report {
namespace {

template <typename T>
absl::Status ReadInto(const Json& object, JsonReader::Missing missing,
                      T& value) {
  JsonReader reader(object, "there", missing);
  Fields(reader, value, &value);
  return reader.status();
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
