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

TEST_F(DaemonServiceTest, DrainAndUndrainOverTheWire) {
  v1::DrainRequest request;
  request.set_reason("a new disk");
  v1::DrainResponse drained;
  grpc::ClientContext drain;
  ASSERT_TRUE(daemon_->Drain(&drain, request, &drained).ok());
  grpc::ClientContext first;
  v1::InfoResponse info;
  ASSERT_TRUE(daemon_->Info(&first, {}, &info).ok());
  EXPECT_TRUE(info.drained());
  EXPECT_EQ(info.hold_reason(), "drained");
  v1::UndrainResponse undrained;
  grpc::ClientContext undrain;
  ASSERT_TRUE(daemon_->Undrain(&undrain, {}, &undrained).ok());
  grpc::ClientContext second;
  ASSERT_TRUE(daemon_->Info(&second, {}, &info).ok());
  EXPECT_FALSE(info.drained());
}

TEST_F(DaemonServiceTest, WhatGoesOverTheWire) {
  collector_.bytes = {700, 500};
  collector_.plan.freed_bytes = 9;
  collector_.result.removed = 2;
  grpc::ClientContext info_context, plan_context, collect_context;
  v1::InfoResponse info;
  ASSERT_TRUE(daemon_->Info(&info_context, {}, &info).ok());
  EXPECT_EQ(info.state_bytes(), 700);
  EXPECT_EQ(info.state_budget_bytes(), 500);
  v1::PlanCollectionResponse plan;
  ASSERT_TRUE(daemon_->PlanCollection(&plan_context, {}, &plan).ok());
  EXPECT_EQ(plan.freed_bytes(), 9);
  EXPECT_EQ(collector_.collected, 0);
  v1::CollectResponse collected;
  ASSERT_TRUE(daemon_->Collect(&collect_context, {}, &collected).ok());
  EXPECT_EQ(collected.removed(), 2);
  EXPECT_EQ(collector_.collected, 1);
}

}  // namespace
}  // namespace mpsd::rpc
