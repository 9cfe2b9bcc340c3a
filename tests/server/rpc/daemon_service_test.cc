// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/daemon_service.h"

#include "gtest/gtest.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

using DaemonServiceTest = Served;

TEST_F(DaemonServiceTest, InfoOverTheWire) {
  jobs::ManagerInfo info;
  info.device = "cpu";
  manager_.SetInfo(info);
  grpc::ClientContext context;
  v1::InfoResponse response;
  ASSERT_TRUE(daemon_->Info(&context, {}, &response).ok());
  EXPECT_EQ(response.device(), "cpu");
  EXPECT_EQ(response.state_dir(), scratch_.path().string());
}

}  // namespace
}  // namespace mpsd::rpc
