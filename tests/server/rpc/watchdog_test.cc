// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/watchdog.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

using ::testing::HasSubstr;

class WatchdogTest : public Served {
 protected:
  Watchdog::Options Impatient(const std::string& at) {
    Watchdog::Options options;
    options.address = at;
    options.interval = absl::Milliseconds(10);
    options.patience = absl::Milliseconds(200);
    options.deaf = [this](const std::string& why) {
      why_ = why;
      deaf_.Notify();
    };
    return options;
  }
  absl::Status Ask() {
    grpc::ClientContext context;
    return AskHealth(address(), absl::Minutes(1), context);
  }
  std::string why_;
  absl::Notification deaf_;
};

TEST_F(WatchdogTest, ASocketThatNobodyServes) {
  Watchdog watchdog(Impatient("unix:" + socket_path() + ".none"));
  deaf_.WaitForNotification();
  EXPECT_THAT(why_, HasSubstr(".none"));
  EXPECT_THAT(why_, HasSubstr("3 times"));
}

// It connects, and hears nothing.
TEST_F(WatchdogTest, ASocketThatIsNotAccepted) {
  const std::string path = socket_path() + ".deaf";
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  path.copy(name.sun_path, sizeof(name.sun_path) - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
  ASSERT_EQ(listen(fd, 100), 0);
  {
    Watchdog watchdog(Impatient("unix:" + path));
    deaf_.WaitForNotification();
  }
  close(fd);
}

TEST_F(WatchdogTest, ItsEndWaitsForNoAnswer) {
  Watchdog::Options options = Impatient("unix:" + socket_path() + ".none");
  options.patience = absl::Hours(1);
  {
    Watchdog watchdog(options);
    absl::SleepFor(absl::Milliseconds(100));  // it asks by now
  }
  EXPECT_FALSE(deaf_.HasBeenNotified());
}

TEST_F(WatchdogTest, HealthIsAnsweredWhateverItIs) {
  EXPECT_TRUE(Ask().ok());
  Watchdog::Options options = Impatient(address());
  options.patience = absl::Minutes(1);
  Watchdog watchdog(options);
  EXPECT_FALSE(deaf_.WaitForNotificationWithTimeout(absl::Seconds(1)));
}

// No thread of ours is needed to answer it.
TEST_F(WatchdogTest, ASlowDaemonIsNotDeaf) {
  absl::Notification go_on;
  manager_.OnSubmit(
      [&](const jobs::SubmitRequest&) -> absl::StatusOr<jobs::SubmitResult> {
        go_on.WaitForNotification();
        return absl::InternalError("");
      });
  std::vector<std::thread> submits;
  for (int i = 0; i < 20; ++i) {
    submits.emplace_back([this] {
      grpc::ClientContext context;
      v1::SubmitRequest request;
      request.set_spec_json("{}");
      v1::SubmitResponse response;
      jobs_->Submit(&context, request, &response);
    });
  }
  EXPECT_TRUE(Ask().ok());
  go_on.Notify();
  for (std::thread& submit : submits) submit.join();
}

}  // namespace
}  // namespace mpsd::rpc
