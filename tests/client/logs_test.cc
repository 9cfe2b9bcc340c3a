// SPDX-License-Identifier: Apache-2.0
#include "client/logs.h"

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
  EXPECT_THAT(RunVerb({"logs", kId}), Prints(kLog));
  EXPECT_EQ(RunVerb({"logs", kId, "--json"}).out,
            "{\"line\":\"loading the model\"}\n"
            "{\"line\":\"step 1\"}\n"
            "{\"line\":\"step 2, still runn\"}\n");
  data().jobs[0].set_state(v1::JOB_STATE_FAILED);
  EXPECT_THAT(RunVerb({"logs", "-f", kId}), Prints(kLog));
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

TEST_F(LogsTest, FollowGoesOnWhereTheConnectionBroke) {
  terminal_.sleep = [this](absl::Duration) {
    data().fail.clear();
    data().logs[kId] += "ing\n";
    data().jobs[0].set_state(v1::JOB_STATE_SUCCEEDED);
    daemon_->Sync();
  };
  Fail("Logs", StatusCode::UNAVAILABLE, "gone");
  EXPECT_THAT(RunVerb({"logs", "-f", kId}),
              Prints(std::string(kLog) + "ing\n"));
}

TEST_F(LogsTest, ABrokenConnectionIsAnErrorAndInterruptEndsFollowing) {
  Fail("Logs", StatusCode::UNAVAILABLE, "gone");
  EXPECT_EQ(RunVerb({"logs", kId}).code, 7);
  data().on_idle = [this] { EXPECT_TRUE(interrupt_.Raise()); };
  EXPECT_EQ(RunVerb({"logs", "-f", kId}).code, 130);
}

class LogTailTest : public ClientTest {
 protected:
  LogTailTest() { AddJob(kId, v1::JOB_STATE_RUNNING); }

  LogTail Read() {
    LogTail tail;
    const grpc::Status status = ReadLogTail(TestConsole(), kId, 1000, &tail);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return tail;
  }
};

TEST_F(LogTailTest, AShortLogIsWhole) {
  EXPECT_EQ(Read().text, "");
  data().logs[kId] = "one\ntwo\n";
  const LogTail tail = Read();
  EXPECT_EQ(tail.text, "one\ntwo\n");
  EXPECT_EQ(tail.before_bytes, 0);
}

TEST_F(LogTailTest, OfALongOneTheLastLines) {
  std::string log;
  for (int i = 0; i < 1000; ++i) log += "line " + std::to_string(i) + "\n";
  for (const size_t size :
       {log.size(), log.size() - 1, size_t{4000}, size_t{4001}, size_t{1001}}) {
    data().logs[kId] = log.substr(0, size);
    const LogTail tail = Read();
    EXPECT_LE(tail.text.size(), 1000u);
    EXPECT_GE(tail.text.size(), 400u);
    EXPECT_TRUE(tail.text.starts_with("line ")) << size;
    EXPECT_EQ(
        log.substr(static_cast<size_t>(tail.before_bytes), tail.text.size()),
        tail.text);
    EXPECT_EQ(static_cast<size_t>(tail.before_bytes) + tail.text.size(), size);
  }
}

TEST_F(LogTailTest, ALineWithoutEndIsCut) {
  data().logs[kId] = std::string(5000, 'x');
  const LogTail tail = Read();
  EXPECT_LE(tail.text.size(), 1000u);
  EXPECT_GE(tail.text.size(), 400u);
  LogTail none;
  EXPECT_EQ(ReadLogTail(TestConsole(), kOtherId, 100, &none).error_code(),
            StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace mpsd::client
