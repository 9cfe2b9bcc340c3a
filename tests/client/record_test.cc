// SPDX-License-Identifier: Apache-2.0
#include "client/record.h"

#include <map>
#include <string>

#include "tests/client/client_fixture.h"
#include "tests/client/some_records.h"

namespace mpsd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::map<std::string, std::string> Rows(const v1::JobRecord& record) {
  std::map<std::string, std::string> rows;
  for (const RecordSection& section :
       DescribeRecord(record, /*results=*/true, absl::UTCTimeZone())) {
    for (const auto& [name, value] : section.rows) {
      rows[section.title + "/" + name] = value;
    }
  }
  return rows;
}

// What a reviewer asks for beside the versions (seed 004, 18): checksums, who
// else used the machine, power, Low Power Mode, heat, round trip, mounts.
TEST(Record, HasEveryFieldWithItsUnit) {
  auto rows = Rows(SomeRecord("A"));
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"ENVIRONMENT/torch version", "2.6.0"},
           {"ENVIRONMENT/variables OMP_NUM_THREADS", "8"},
           {"ENVIRONMENT/file systems data", "nfs4"},
           {"MEMORY/peak allocated", "4.0 GB"},
           {"FALLBACKS/allowed", "yes"},
           {"FALLBACKS/ops aten::svd", "3"},
           {"DATA/inputs t.jsonl", std::string(64, 'a')},
           {"CONDITIONS/power sources", "mains"},
           {"CONDITIONS/low power mode", "no"},
           {"CONDITIONS/least battery", "85 %"},
           {"CONDITIONS/thermal levels", "nominal, heavy"},
           {"PAUSES/count", "2"},
           {"DURATIONS/steady step", "0.25s"},
           {"DURATIONS/round trip", "0.0213s"},
           {"RESULTS/state", "SUCCEEDED"},
           {"RESULTS/eval loss", "1.2500"}}) {
    EXPECT_EQ(rows[name], value) << name;
  }
}

TEST(Record, WhatIsNotKnownHasNoMadeUpValue) {
  v1::JobRecord record;
  record.set_kind(v1::JOB_KIND_TRAINING);
  record.mutable_environment();
  record.mutable_conditions();
  record.mutable_memory()->set_peak_footprint_bytes(70'000'000);
  record.mutable_durations();
  auto rows = Rows(record);
  for (const char* name :
       {"ENVIRONMENT/torch version", "ENVIRONMENT/file systems",
        "MEMORY/peak allocated", "CONDITIONS/power sources",
        "CONDITIONS/low power mode", "CONDITIONS/thermal levels",
        "CONDITIONS/user active", "CONDITIONS/most swap",
        "DURATIONS/round trip", "DURATIONS/load", "RESULTS/eval loss"}) {
    ASSERT_TRUE(rows.contains(name)) << name;
    EXPECT_EQ(rows[name], "-") << name;
  }
  // A run on the CPU has its process' memory, which is not the device's.
  EXPECT_EQ(rows["MEMORY/peak footprint"], "70.0 MB");
}

class ShowRecordTest : public ClientTest {
 protected:
  void AddPast(const std::string& id) {
    v1::Job job;
    job.set_id(id);
    job.set_past(true);
    job.set_name("moods");
    job.set_state(v1::JOB_STATE_SUCCEEDED);
    job.mutable_create_time()->set_seconds(1767323000);
    job.add_tags("baseline");
    data().past.push_back(job);
    data().records[id] = SomeRecord(id);
  }
};

TEST_F(ShowRecordTest, ADeletedJob) {
  AddPast(kOtherId);
  v1::JobRecord& record = data().records[kOtherId];
  record.set_attempt_count(3);
  for (const char* reason : {"Crashed", "Done"}) {
    v1::RunAttempt& attempt = *record.add_attempts();
    attempt.mutable_start_time()->set_seconds(1767323045);
    attempt.set_exit_reason(reason);
  }
  v1::Finding& finding = *record.add_findings();
  finding.set_name("memory.growth");
  finding.set_verdict(v1::VERDICT_FAIL);
  finding.set_found("31 %");
  v1::JobNote& note = *record.add_notes();
  note.mutable_time()->set_seconds(1767323045);
  note.set_author("eve");
  note.set_text("too\nhot\x1b[2J");
  // By a part of its id, too.
  const Result result = RunVerb({"show", std::string(kOtherId).substr(20)});
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* text :
       {"It was deleted", "baseline", "torch version", "2.6.0", "4.0 GB",
        "nominal, heavy", "ATTEMPT", "Crashed", "memory.growth", "NOTES",
        "eve\n  too\n", "\\x1b"}) {
    EXPECT_THAT(result.out, HasSubstr(text)) << text;
  }
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
  const auto json =
      nlohmann::json::parse(RunVerb({"--json", "show", kOtherId}).out);
  EXPECT_EQ(json["past"], true);
  EXPECT_EQ(json["record"]["environment"]["device"], "mps");
  EXPECT_EQ(json["record"]["notes"][0]["author"], "eve");
}

TEST_F(ShowRecordTest, AJobThatIsThere) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  data().records[kId] = SomeRecord(kId);
  const Result result = RunVerb({"show", kId});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("CONDITIONS"));
  EXPECT_THAT(result.out, HasSubstr("Follow it with"));
  // A job of somebody else on a daemon with private jobs.
  data().fail["GetRecord"] = {grpc::StatusCode::NOT_FOUND, "no record"};
  const Result others = RunVerb({"show", kId});
  EXPECT_EQ(others.code, 0) << others.err;
  EXPECT_THAT(others.out, Not(HasSubstr("CONDITIONS")));
  EXPECT_EQ(RunVerb({"show", kOtherId}).code, 4);
}

TEST_F(ShowRecordTest, ListFindsDeletedJobsInOneOrder) {
  v1::Job& old = AddJob(kId, v1::JOB_STATE_FAILED);
  old.mutable_create_time()->set_seconds(1767322000);
  AddPast(kOtherId);
  EXPECT_THAT(RunVerb({"list", "-q"}).out, Not(HasSubstr(kOtherId)));
  EXPECT_EQ(RunVerb({"list", "-q", "--past", "--tag", "baseline"}).out,
            std::string(kOtherId) + "\n" + kId + "\n");
  EXPECT_EQ(data().listed.back().tags(0), "baseline");
  EXPECT_EQ(RunVerb({"list", "-q", "--past", "--limit", "1"}).out,
            std::string(kOtherId) + "\n");
  EXPECT_EQ(RunVerb({"list", "-q", "--past", "--sort", "create_time"}).out,
            std::string(kId) + "\n" + kOtherId + "\n");
  EXPECT_EQ(RunVerb({"list", "--past", "--count"}).out, "2\n");
  EXPECT_EQ(
      RunVerb({"list", "--past", "--csv", "--columns", "id,past,tags"}).out,
      std::string("id,past,tags\n") + kOtherId +
          ",true,\"[\"\"baseline\"\"]\"\n" + kId + ",false,[]\n");
}

}  // namespace
}  // namespace mpsd::client
