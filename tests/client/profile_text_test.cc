// SPDX-License-Identifier: Apache-2.0
#include "client/profile_text.h"

#include "tests/client/client_fixture.h"
#include "tests/client/profile_samples.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;
using testing::Not;

class ProfileTextTest : public ClientTest {
 protected:
  std::string Printed(const v1::StudyResult& result) {
    Connection connection(SocketAddress(), nullptr);
    std::ostringstream out, err;
    PrintProfile(result, TestConsole(connection, out, err));
    return out.str();
  }
};

TEST_F(ProfileTextTest, TellsStepsBlocksOperatorsAndWaits) {
  const std::string text = Printed(ProfileSample());
  for (const char* line :
       {"mps, gradients: explicit; 10 steps of warm-up, 20 plain, 50 under the "
        "profiler, which makes a step 10.0% longer\n",
        "the first       2500 ms", "steady          100 ms",
        "waits for data for 25.0%", "data alone      30 ms",
        "forward alone   20 ms", "attention  backward  4      75 ms",
        "aten::op0   10     1 ms      5.0%   4 ms",
        "Between operators: 4 ms a step (4.0%); the longest 1 ms, in 'mlp'\n",
        "The host waits in aten::_local_scalar_dense: 2 a step, 10 ms; in "
        "'mlp'\n",
        "The host waits in read back: 1 a step, 20 ms; the one that ends a "
        "step\n",
        "Memory at its peak: driver 12.0 MB, process 34.0 MB\n",
        "Not told: the device's own times\n",
        "Trace: trace.json.gz, 1.2 MB, the last 5 steps"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST_F(ProfileTextTest, LeavesOutWhatIsNextToNothing) {
  const std::string text = Printed(ProfileSample());
  EXPECT_THAT(text, Not(HasSubstr("upload")));
  EXPECT_THAT(text, HasSubstr("aten::op11"));
  EXPECT_THAT(text, Not(HasSubstr("aten::op12")));
}

TEST_F(ProfileTextTest, AWorkersNamesMoveNoCursor) {
  const std::string text = Printed(ProfileSample());
  EXPECT_THAT(text, HasSubstr("On the CPU: aten::unique"));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST_F(ProfileTextTest, AnEmptyResultIsPrintedToo) {
  v1::StudyResult result;
  result.mutable_profile();
  EXPECT_THAT(Printed(result), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace mpsd::client
