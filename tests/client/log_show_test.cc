// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"
#include "tests/client/some_records.h"

namespace mpsd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LogShowTest : public ClientTest {};

TEST_F(LogShowTest, AllOfARecord) {
  v1::Record record = SomeRecord(kId);
  record.set_attempt_count(3);
  for (const char* reason : {"Crashed", "Done"}) {
    v1::RunAttempt& attempt = *record.add_attempts();
    attempt.mutable_start_time()->set_seconds(1767323045);
    attempt.set_exit_reason(reason);
  }
  record.add_warnings("a warning\x1b[2J");
  v1::Finding& finding = *record.add_findings();
  finding.set_name("memory.growth");
  finding.set_verdict(v1::VERDICT_FAIL);
  finding.set_found("31 %");
  *record.add_notes() = SomeEntry(kOtherId, "too\nhot").notes(0);
  daemon_->logbook().records = {record};
  const Result result = RunVerb({"log", "show", kId});
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* text :
       {"[baseline]", "torch", "2.6.0", "$OMP_NUM_THREADS", "4 rows, times 2",
        "4.0 GB", "fallback aten::svd", "nominal, heavy", "paused for battery",
        "round trip", "not told", "2        ", "Crashed", "memory.growth",
        "a warning\\x1b[2J", "eve  rejected", "too\n"}) {
    EXPECT_THAT(result.out, HasSubstr(text)) << text;
  }
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
}

TEST_F(LogShowTest, AnEntryAndNothing) {
  daemon_->logbook().records = {SomeEntry(kId, "bf16 is not why")};
  const Result result = RunVerb({"log", "show", kId});
  EXPECT_THAT(result.out, HasSubstr("bf16 is not why"));
  EXPECT_THAT(result.out, Not(HasSubstr("ENVIRONMENT")));
  EXPECT_EQ(RunVerb({"log", "show", kOtherId}).code, 4);
  const auto json =
      nlohmann::json::parse(RunVerb({"--json", "log", "show", kId}).out);
  EXPECT_EQ(json["notes"][0]["rejected"], true);
}

}  // namespace
}  // namespace mpsd::client
