// SPDX-License-Identifier: Apache-2.0
#include "client/reconnect.h"

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

const grpc::Status kGone(grpc::StatusCode::UNAVAILABLE, "gone");

class ReconnectTest : public ClientTest {
 protected:
  ReconnectTest() {
    terminal_.sleep = [this](absl::Duration d) { slept_ += d; };
  }

  std::ostringstream out_, err_;
  absl::Duration slept_ = absl::ZeroDuration();
  Connection connection_{{"unix:/none", "/none"}};
  Console console_{out_, err_, terminal_, connection_, false};
  Reconnect reconnect_{console_, absl::Seconds(10)};
};

TEST_F(ReconnectTest, NotBeforeAnythingCame) {
  EXPECT_FALSE(reconnect_.ShouldRetry(kGone));
  EXPECT_EQ(slept_, absl::ZeroDuration());
}

TEST_F(ReconnectTest, GivesUpAfterTheLimit) {
  reconnect_.Received();
  int attempts = 0;
  while (reconnect_.ShouldRetry(kGone)) ++attempts;
  EXPECT_EQ(attempts, 8) << "0.2 + 0.4 + 0.8 + 1.6 + 2 …";
  EXPECT_GE(slept_, absl::Seconds(10));
  EXPECT_LT(slept_, absl::Seconds(12));
  EXPECT_EQ(err_.str(),
            "mpsctl: lost the connection to mpsd; trying again for 10s\n");
}

TEST_F(ReconnectTest, TheLimitStartsAnewWhenSomethingComes) {
  for (int outage = 0; outage < 20; ++outage) {
    reconnect_.Received();
    EXPECT_TRUE(reconnect_.ShouldRetry(kGone));
  }
  EXPECT_EQ(slept_, absl::Seconds(4));
}

TEST_F(ReconnectTest, ATunnelThatIsRefusedIsNotTriedAgain) {
  Connection connection(FindAddress("ssh://-oX", ""));
  EXPECT_FALSE(connection.Connect().ok());
  const Console console{out_, err_, terminal_, connection, false};
  Reconnect reconnect(console, absl::Seconds(10));
  reconnect.Received();
  EXPECT_FALSE(reconnect.ShouldRetry(kGone));
}

TEST_F(ReconnectTest, SomeErrorsWouldComeAgain) {
  reconnect_.Received();
  EXPECT_FALSE(reconnect_.ShouldRetry(
      grpc::Status(grpc::StatusCode::NOT_FOUND, "no such job")));
  EXPECT_TRUE(reconnect_.ShouldRetry(grpc::Status::OK))
      << "closed in good order";
}

}  // namespace
}  // namespace mpsd::client
