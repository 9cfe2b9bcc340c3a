// SPDX-License-Identifier: Apache-2.0
#include "client/study.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class StudyPrintersTest : public ClientTest {
 protected:
  std::string Printed(const v1::StudyResult& result) {
    Connection connection(SocketAddress(), nullptr);
    std::ostringstream out, err;
    PrintAnyStudy(result, TestConsole(connection, out, err));
    return out.str();
  }
};

TEST_F(StudyPrintersTest, AStudyOfANewerDaemonHasItsFindingsAlone) {
  EXPECT_EQ(Printed({}), "");
}

TEST_F(StudyPrintersTest, EachKindHasItsOwn) {
  v1::StudyResult result;
  result.mutable_device_comparison()->set_decision(v1::DEVICE_DECISION_GO);
  EXPECT_THAT(Printed(result), testing::HasSubstr("Decision: go"));
  result.mutable_smoke()->set_device("mps");
  EXPECT_THAT(Printed(result), testing::HasSubstr("on mps"));
}

}  // namespace
}  // namespace mpsd::client
