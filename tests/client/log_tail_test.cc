// SPDX-License-Identifier: Apache-2.0
#include "client/log_tail.h"

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class LogTailTest : public ClientTest {
 protected:
  LogTailTest() { AddJob(kId, v1::JOB_STATE_RUNNING); }

  LogTail Read(int64_t most) {
    Connection connection(SocketAddress());
    std::ostringstream out, err;
    LogTail tail;
    const grpc::Status status =
        ReadLogTail(TestConsole(connection, out, err), kId, most, &tail);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return tail;
  }
};

TEST_F(LogTailTest, AShortLogIsWhole) {
  data().logs[kId] = "one\ntwo\n";
  const LogTail tail = Read(1000);
  EXPECT_EQ(tail.text, "one\ntwo\n");
  EXPECT_EQ(tail.before_bytes, 0);
}

TEST_F(LogTailTest, AnEmptyLogIsEmpty) { EXPECT_EQ(Read(1000).text, ""); }

TEST_F(LogTailTest, OfALongOneTheLastLines) {
  std::string log;
  for (int i = 0; i < 1000; ++i) log += "line " + std::to_string(i) + "\n";
  for (const size_t size :
       {log.size(), log.size() - 1, size_t{4000}, size_t{4001}, size_t{1001}}) {
    data().logs[kId] = log.substr(0, size);
    const LogTail tail = Read(1000);
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
  const LogTail tail = Read(1000);
  EXPECT_LE(tail.text.size(), 1000u);
  EXPECT_GE(tail.text.size(), 400u);
}

TEST_F(LogTailTest, AFailureIsTold) {
  Connection connection(SocketAddress());
  std::ostringstream out, err;
  LogTail tail;
  EXPECT_EQ(ReadLogTail(TestConsole(connection, out, err), kOtherId, 100, &tail)
                .error_code(),
            grpc::StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace mpsd::client
