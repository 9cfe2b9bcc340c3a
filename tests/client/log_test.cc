// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"
#include "tests/client/some_records.h"

namespace mpsd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LogTest : public ClientTest {};

TEST_F(LogTest, TheLatestWithoutAVerb) {
  EXPECT_THAT(RunVerb({"log"}).out, HasSubstr("The logbook is empty"));
  daemon_->logbook().records = {SomeRecord(kId), SomeRecord(kOtherId)};
  const Result all = RunVerb({"log"});
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_THAT(all.out, HasSubstr(kId));
  EXPECT_THAT(all.out, HasSubstr(kOtherId));
  EXPECT_EQ(daemon_->logbook().searched.back().query(), "");
  EXPECT_THAT(RunVerb({"log", "--limit", "1"}).out, Not(HasSubstr(kOtherId)));
  EXPECT_EQ(RunVerb({"log", "--limit", "0"}).code, 2);
  EXPECT_EQ(RunVerb({"log", "nonsense"}).code, 2);
}

TEST_F(LogTest, TellsItselfFromLogs) {
  EXPECT_THAT(RunBare({"log", "--help"}).out, HasSubstr("mpsctl logs"));
  EXPECT_THAT(RunBare({"logs", "--help"}).out, HasSubstr("mpsctl log"));
}

TEST_F(LogTest, ADaemonWithoutALogbook) {
  data().fail["SearchRecords"] = {grpc::StatusCode::UNIMPLEMENTED, "none"};
  EXPECT_NE(RunVerb({"log"}).code, 0);
}

}  // namespace
}  // namespace mpsd::client
