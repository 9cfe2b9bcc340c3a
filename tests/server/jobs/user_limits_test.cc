// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/user_limits.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::jobs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

UserLimits With(const std::string& key, const std::string& value) {
  UserLimits limits;
  const absl::Status set = SetLimit(limits, key, value);
  EXPECT_TRUE(set.ok()) << key << ": " << set;
  return limits;
}

std::string Refusal(
    const absl::Status& status,
    absl::StatusCode code = absl::StatusCode::kResourceExhausted) {
  EXPECT_EQ(status.code(), code) << status;
  return std::string(status.message());
}

TEST(UserLimits, NobodyHasLimitsUnlessAsked) {
  const UserLimits none;
  EXPECT_TRUE(CheckQueued("ada", none, 1'000'000).ok());
  EXPECT_TRUE(CheckPriority("ada", none, -2'147'483'648).ok());
  EXPECT_TRUE(CheckPriority("ada", none, 2'147'483'647).ok());
  EXPECT_TRUE(
      CheckUploads("ada", none, int64_t{1} << 60, int64_t{1} << 60).ok());
  EXPECT_TRUE(CheckResults("ada", none, int64_t{1} << 62).ok());
}

TEST(UserLimits, ReadsCountsBytesAndRanges) {
  EXPECT_EQ(With("queued-jobs", "20").queued_jobs, 20);
  EXPECT_EQ(With("queued-jobs", "0").queued_jobs, 0);
  EXPECT_EQ(With("upload-bytes", "5000").upload_bytes, 5000);
  EXPECT_EQ(With("upload-bytes", "3KiB").upload_bytes, 3 << 10);
  EXPECT_EQ(With("result-bytes", "20 GiB").result_bytes, int64_t{20} << 30);
  EXPECT_EQ(With("result-bytes", "2TiB").result_bytes, int64_t{2} << 40);
  EXPECT_EQ(With("priority", "-10:7").lowest_priority, -10);
  EXPECT_EQ(With("priority", "-10:7").highest_priority, 7);
  for (const char* key : kLimitKeys) {
    EXPECT_EQ(With(key, "none"), UserLimits()) << key;
  }
}

TEST(UserLimits, ReadsTheRulesOfRetention) {
  EXPECT_EQ(With("keep-days", "1.5").keep.age, absl::Hours(36));
  EXPECT_EQ(With("keep-days", "0").keep.age, absl::ZeroDuration());
  EXPECT_EQ(With("keep-jobs", "7").keep.jobs, 7);
  EXPECT_EQ(With("keep-bytes", "2TiB").keep.bytes, int64_t{2} << 40);
  EXPECT_EQ(With("keep-checkpoints-days", "7").keep.checkpoint_age,
            absl::Hours(7 * 24));
  for (const char* key : kKeepKeys) {
    EXPECT_TRUE(With(key, "none").keep.KeepAll()) << key;
    EXPECT_FALSE(With(key, "3").keep.KeepAll()) << key;
    UserLimits limits;
    EXPECT_TRUE(absl::IsInvalidArgument(SetLimit(limits, key, "-3"))) << key;
    EXPECT_TRUE(absl::IsInvalidArgument(SetLimit(limits, key, "nan"))) << key;
  }
}

TEST(UserLimits, BytesInBothDirections) {
  EXPECT_EQ(ReadBytes("5000"), 5000);
  EXPECT_EQ(ReadBytes("2MiB"), 2 << 20);
  EXPECT_EQ(ReadBytes("2MB"), std::nullopt);
  EXPECT_EQ(BytesInWords(512), "512 bytes");
  EXPECT_EQ(BytesInWords(3 << 19), "1.50 MiB (1572864 bytes)");
}

TEST(UserLimits, RefusesWhatIsNoLimit) {
  UserLimits limits;
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, const char*>>{
           {"queued-jobs", "-1"},      {"queued-jobs", "many"},
           {"queued-jobs", ""},        {"queued-jobs", "5GiB"},
           {"upload-bytes", "-5"},     {"upload-bytes", "5GB"},
           {"upload-bytes", "GiB"},    {"upload-bytes", "9999999999TiB"},
           {"result-bytes", "1.5GiB"}, {"priority", "5"},
           {"priority", "5:1"},        {"priority", ":5"},
           {"priority", "1:2:3"},      {"priority", "1:99999999999"},
           {"job-hours", "-1"},        {"job-hours", "nan"},
           {"job-hours", "inf"},       {"job-hours", "2h"},
           {"job-hours", "1e7"},       {"disk", "5"}}) {
    const absl::Status set = SetLimit(limits, key, value);
    EXPECT_TRUE(absl::IsInvalidArgument(set)) << key << " = " << value;
    EXPECT_THAT(
        std::string(set.message()),
        HasSubstr(key == std::string("disk") ? "queued-jobs" : "expected"));
  }
  EXPECT_EQ(limits, UserLimits());
}

TEST(UserLimits, EachLimitHoldsAtItsFigureAndNotPastIt) {
  const UserLimits limits{2, 100, 50, -1, 1};
  EXPECT_TRUE(CheckQueued("ada", limits, 1).ok());
  EXPECT_FALSE(CheckQueued("ada", limits, 2).ok());
  EXPECT_TRUE(CheckPriority("ada", limits, -1).ok());
  EXPECT_TRUE(CheckPriority("ada", limits, 1).ok());
  EXPECT_FALSE(CheckPriority("ada", limits, -2).ok());
  EXPECT_FALSE(CheckPriority("ada", limits, 2).ok());
  EXPECT_TRUE(CheckUploads("ada", limits, 40, 60).ok());
  EXPECT_FALSE(CheckUploads("ada", limits, 40, 61).ok());
  EXPECT_FALSE(CheckUploads("ada", limits, 40, int64_t{1} << 62).ok());
  EXPECT_FALSE(CheckUploads("ada", limits, int64_t{1} << 62, 0).ok());
  EXPECT_TRUE(CheckResults("ada", limits, 49).ok());
  EXPECT_FALSE(CheckResults("ada", limits, 50).ok());
}

TEST(UserLimits, ARefusalHasTheFigureTheLimitAndWhoRaisesIt) {
  const UserLimits limits{2, 1 << 20, 50, -1, 1};
  EXPECT_THAT(
      Refusal(CheckQueued("ada", limits, 3)),
      AllOf(HasSubstr("ada has 3 jobs"), HasSubstr("2 are allowed"),
            HasSubstr("mpsctl cancel"), HasSubstr("[user.ada] queued-jobs")));
  EXPECT_THAT(Refusal(CheckUploads("ada", limits, 1 << 19, 1 << 20)),
              AllOf(HasSubstr("512.00 KiB (524288 bytes)"),
                    HasSubstr("1.00 MiB (1048576 bytes) are allowed"),
                    HasSubstr("[user.ada] upload-bytes")));
  EXPECT_THAT(
      Refusal(CheckResults("ada", limits, 60)),
      AllOf(HasSubstr("60 bytes"), HasSubstr("50 bytes are allowed"),
            HasSubstr("mpsctl delete"), HasSubstr("[user.ada] result-bytes")));
  EXPECT_THAT(Refusal(CheckPriority("ada", limits, 5),
                      absl::StatusCode::kInvalidArgument),
              AllOf(HasSubstr("priority: is 5, -1 to 1 are allowed"),
                    HasSubstr("[user.ada] priority")));
}

TEST(UserLimits, HoursOfAJobAreOfTheDevice) {
  EXPECT_EQ(With("job-hours", "1.5").job_time, absl::Minutes(90));
  EXPECT_EQ(With("job-hours", "0").job_time, std::nullopt);
  EXPECT_EQ(With("job-hours", "none").job_time, std::nullopt);
  EXPECT_EQ(
      DescribeTimeLimit("ada", "01ABC", absl::Seconds(7205), absl::Hours(2)),
      "the job held the device for 2h, each job of ada may for 2h; an "
      "admin raises it in mpsd.toml, [user.ada] job-hours, then `mpsctl "
      "retry 01ABC` goes on from the last checkpoint");
}

// What the message says can be put into the file as it stands.
TEST(UserLimits, ATableIsSpelledAsTomlSpellsIt) {
  const UserLimits limits{0, {}, {}};
  EXPECT_THAT(Refusal(CheckQueued("ada.l@example.org", limits, 0)),
              HasSubstr("[user.\"ada.l@example.org\"] queued-jobs"));
  EXPECT_THAT(Refusal(CheckQueued("ada-l_2", limits, 0)),
              HasSubstr("[user.ada-l_2]"));
}

TEST(UserLimits, AUsersOwnLimitsCount) {
  LimitSettings settings;
  settings.others = With("queued-jobs", "5");
  settings.users["ada"] = With("queued-jobs", "50");
  EXPECT_EQ(settings.Of("ada").queued_jobs, 50);
  EXPECT_EQ(settings.Of("bob").queued_jobs, 5);
  EXPECT_EQ(settings.Of("").queued_jobs, 5);
}

}  // namespace
}  // namespace mpsd::jobs
