// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

constexpr char kLog[] = "loading the model\nstep 1\nstep 2, still runn";

class LogsTest : public ClientTest {
 protected:
  LogsTest() {
    AddJob(kId, v1::JOB_STATE_RUNNING);
    data().logs[kId] = kLog;
  }
};

TEST_F(LogsTest, AsTheyAre) {
  const Result result = RunVerb({"logs", kId});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, kLog);
}

constexpr char kHostile[] =
    "h\u00e9llo\x1b]0;PWNED\x07\x1b[2J\tnext\n\u202eevil \xff end\n";
constexpr char kCleaned[] =
    "h\u00e9llo\\x1b]0;PWNED\\x07\\x1b[2J\tnext\n\\u202eevil \\xff end\n";

TEST_F(LogsTest, OnATerminalNothingSteersIt) {
  terminal_.is_tty = true;
  // The daemon sends ten bytes at a time, characters cut in two among them.
  for (int i = 0; i < 10; ++i) {
    const std::string before(i, '.');
    data().logs[kId] = before + kHostile;
    EXPECT_EQ(RunVerb({"logs", kId}).out, before + kCleaned);
  }
  data().logs[kId] = "cut \xc3";
  EXPECT_EQ(RunVerb({"logs", kId}).out, "cut \\xc3");
}

TEST_F(LogsTest, RawOnATerminalWhereAskedAndElsewhereAlways) {
  data().logs[kId] = kHostile;
  EXPECT_EQ(RunVerb({"logs", kId}).out, kHostile);
  terminal_.is_tty = true;
  EXPECT_EQ(RunVerb({"logs", kId, "--raw"}).out, kHostile);
}

TEST_F(LogsTest, JsonIsALineAnObject) {
  EXPECT_EQ(RunVerb({"logs", kId, "--json"}).out,
            "{\"line\":\"loading the model\"}\n"
            "{\"line\":\"step 1\"}\n"
            "{\"line\":\"step 2, still runn\"}\n");
}

TEST_F(LogsTest, FollowEndsWithTheJob) {
  data().jobs[0].set_state(v1::JOB_STATE_FAILED);
  const Result result = RunVerb({"logs", "-f", kId});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, kLog);
}

TEST_F(LogsTest, FollowGoesOnWhereTheConnectionBroke) {
  terminal_.sleep = [this](absl::Duration) {
    data().fail.clear();
    data().logs[kId] += "ing\n";
    data().jobs[0].set_state(v1::JOB_STATE_SUCCEEDED);
    daemon_->Sync();
  };
  data().fail["Logs"] = grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
  const Result result = RunVerb({"logs", "-f", kId});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, std::string(kLog) + "ing\n");
}

TEST_F(LogsTest, WithoutFollowABrokenConnectionIsAnError) {
  data().fail["Logs"] = grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
  EXPECT_EQ(RunVerb({"logs", kId}).code, 7);
}

TEST_F(LogsTest, InterruptEndsFollowing) {
  data().on_idle = [this] { EXPECT_TRUE(interrupt_.Raise()); };
  EXPECT_EQ(RunVerb({"logs", "-f", kId}).code, 130);
}

}  // namespace
}  // namespace mpsd::client
