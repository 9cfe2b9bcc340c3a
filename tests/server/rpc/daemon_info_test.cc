// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/daemon_info.h"

#include <sys/utsname.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/fake_manager.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

TEST(DaemonInfo, HasEveryField) {
  Scratch scratch;
  FakeManager manager;
  jobs::ManagerInfo info;
  info.worker_version = "0.1.0";
  info.torch_version = "2.15.0";
  info.device = "mps";
  info.memory.footprint_bytes = 7;
  info.jobs = {{jobs::State::kQueued, 3}, {jobs::State::kRunning, 1}};
  info.running_job_id = "a";
  info.hold = "the disk is full\xff";
  info.hold_reason = "disk";
  info.host.gpu_resets = 3;
  info.pause.reasons = {jobs::PauseReason::kThermal};
  manager.SetInfo(info);
  v1::InfoResponse response;
  ASSERT_TRUE(DaemonInfo(manager, SomeFacts(scratch.path()), response).ok());
  EXPECT_EQ(response.version(), "0.1.0");
  EXPECT_EQ(response.worker_version(), "0.1.0");
  EXPECT_EQ(response.torch_version(), "2.15.0");
  EXPECT_EQ(response.device(), "mps");
  struct utsname name;
  ASSERT_EQ(uname(&name), 0);
  EXPECT_THAT(response.platform(), testing::StartsWith(name.sysname));
  EXPECT_THAT(response.platform(), testing::EndsWith(name.machine));
  EXPECT_EQ(response.start_time().seconds(), 1'700'000'000);
  EXPECT_EQ(response.state_dir(), scratch.path().string());
  EXPECT_EQ(response.metrics_address(), "127.0.0.1:9464");
  EXPECT_TRUE(response.metrics_tls());
  EXPECT_EQ(response.page_address(), "127.0.0.1:9465");
  EXPECT_EQ(response.schema_version(), 1);
  EXPECT_EQ(response.queued_jobs(), 3);
  EXPECT_EQ(response.running_jobs(), 1);
  EXPECT_EQ(response.memory().footprint_bytes(), 7);
  EXPECT_GT(response.disk_free_bytes(), 0);
  EXPECT_EQ(response.protocol_version(), 1);
  EXPECT_EQ(response.running_job_id(), "a");
  EXPECT_EQ(response.hold(), "the disk is full\xef\xbf\xbd");
  EXPECT_EQ(response.hold_reason(), "disk");
  EXPECT_EQ(response.host().gpu_resets(), 3);
  EXPECT_EQ(response.pause().reasons(0), v1::PAUSE_REASON_THERMAL);
}

TEST(DaemonInfo, AMissingStateFolderIsNoError) {
  FakeManager manager;
  v1::InfoResponse response;
  ASSERT_TRUE(DaemonInfo(manager, SomeFacts("/absent"), response).ok());
  EXPECT_EQ(response.disk_free_bytes(), 0);
}

}  // namespace
}  // namespace mpsd::rpc
