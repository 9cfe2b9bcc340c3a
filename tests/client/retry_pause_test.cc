// SPDX-License-Identifier: Apache-2.0
#include "client/retry_pause.h"

#include <vector>

#include "gmock/gmock.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class RetryPauseTest : public ClientTest {
 protected:
  RetryPauseTest() {
    terminal_.sleep = [this](absl::Duration d) {
      slept_.push_back(absl::ToDoubleSeconds(d));
    };
  }

  std::ostringstream out_, err_;
  std::vector<double> slept_;
  Connection connection_{{"unix:/none", "/none"}};
  Console console_{out_, err_, terminal_, connection_, false};
  RetryPause pause_{console_};
};

TEST_F(RetryPauseTest, DoublesUpToTwoSeconds) {
  for (int i = 0; i < 6; ++i) pause_.Wait();
  EXPECT_THAT(slept_, testing::ElementsAre(0.2, 0.4, 0.8, 1.6, 2, 2));
}

TEST_F(RetryPauseTest, RestartsFromTheShortest) {
  pause_.Wait();
  EXPECT_EQ(pause_.Wait(), absl::Milliseconds(400));
  pause_.Restart();
  EXPECT_EQ(pause_.Wait(), absl::Milliseconds(200));
}

}  // namespace
}  // namespace mpsd::client
