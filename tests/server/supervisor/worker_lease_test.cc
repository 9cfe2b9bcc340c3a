// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/worker_lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "server/supervisor/spawned_process.h"
#include "tests/fakes/fake_clock.h"

namespace mpsd::supervisor {
namespace {

using fakes::FakeClock;
using testing::HasSubstr;

class WorkerLeaseTest : public testing::Test {
 protected:
  ~WorkerLeaseTest() override { std::filesystem::remove(path_); }

  // A process that inherits the lease as its fd 4.
  std::unique_ptr<SpawnedProcess> Holder() {
    auto lease = lease_.Acquire();
    EXPECT_TRUE(lease.ok()) << lease.status();
    SpawnedProcess::Options options;
    options.program = "/bin/sleep";
    options.args = {"60"};
    options.fds[4] = UniqueFd(dup(lease->get()));
    auto process = SpawnedProcess::Spawn(std::move(options));
    EXPECT_TRUE(process.ok()) << process.status();
    EXPECT_TRUE(WorkerLease::Record(*lease, (*process)->pid()).ok());
    return *std::move(process);
  }

  const std::string path_ =
      testing::TempDir() + "/lease-" + std::to_string(getpid());
  FakeClock clock_;
  WorkerLease lease_{path_, absl::Seconds(10), clock_};
};

TEST_F(WorkerLeaseTest, IsFreeAgainWhenTheDescriptorIsClosed) {
  { EXPECT_TRUE(lease_.Acquire().ok()); }
  EXPECT_TRUE(lease_.Acquire().ok());
}

TEST_F(WorkerLeaseTest, BelongsToTheWorkerThatInheritedIt) {
  auto holder = Holder();
  auto refused = lease_.Acquire();
  EXPECT_TRUE(absl::IsUnavailable(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr(std::to_string(holder->pid())));
  holder->Kill();
  EXPECT_TRUE(lease_.Acquire().ok());
}

TEST_F(WorkerLeaseTest, PatienceEnds) {
  auto holder = Holder();
  EXPECT_FALSE(lease_.Acquire().ok());
  clock_.Advance(absl::Seconds(9));
  EXPECT_FALSE(lease_.Acquire().ok());
  EXPECT_EQ(holder->Poll(), std::nullopt);
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(std::string(lease_.Acquire().status().message()),
              HasSubstr("killed"));
  EXPECT_EQ(WTERMSIG(holder->Wait()), SIGKILL);
  EXPECT_TRUE(lease_.Acquire().ok());
}

TEST_F(WorkerLeaseTest, NamesAFolderThatIsNotThere) {
  WorkerLease lease("/no/such/folder/lease", absl::Seconds(1), clock_);
  EXPECT_TRUE(absl::IsNotFound(lease.Acquire().status()));
}

}  // namespace
}  // namespace mpsd::supervisor
