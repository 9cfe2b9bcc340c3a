// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/sweep_service.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mpsd/v1/sweep.grpc.pb.h"
#include "tests/server/rpc/fake_audit.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

class SweepServiceTest : public Served {
 protected:
  SweepServiceTest() : Served(OptionsOf(this)) {}
  ~SweepServiceTest() override { server_.reset(); }

  static Options OptionsOf(SweepServiceTest* test) {
    Options options;
    options.audit = &test->audit_;
    return options;
  }

  FakeAudit audit_;
};

TEST_F(SweepServiceTest, ASweepIsMadeShownListedAndCancelled) {
  const auto stub = v1::SweepService::NewStub(channel_);
  v1::CreateSweepRequest create;
  create.mutable_submission()->set_spec_json(
      R"({"model": "org/tiny", "dataset": {"train": "/t"}})");
  create.add_parameters()->set_field("lora.r");
  create.mutable_parameters(0)->mutable_choices()->add_values("4");
  v1::Sweep made;
  {
    grpc::ClientContext context;
    const grpc::Status status = stub->CreateSweep(&context, create, &made);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  EXPECT_EQ(made.metric(), "train_loss");
  {
    grpc::ClientContext context;
    v1::GetSweepRequest request;
    request.set_id(made.id());
    v1::Sweep shown;
    EXPECT_TRUE(stub->GetSweep(&context, request, &shown).ok());
    EXPECT_EQ(shown.children_size(), 1);
  }
  {
    grpc::ClientContext context;
    v1::ListSweepsResponse listed;
    EXPECT_TRUE(stub->ListSweeps(&context, {}, &listed).ok());
    EXPECT_EQ(listed.sweeps_size(), 1);
  }
  {
    grpc::ClientContext context;
    v1::CancelSweepRequest request;
    request.set_id("NOTHING");
    v1::Sweep cancelled;
    EXPECT_EQ(stub->CancelSweep(&context, request, &cancelled).error_code(),
              grpc::StatusCode::NOT_FOUND);
  }
  const auto noted = audit_.Take();
  ASSERT_EQ(noted.size(), 2);
  EXPECT_EQ(noted[0].request.method, "SweepService.CreateSweep");
  EXPECT_THAT(noted[0].request.detail, testing::HasSubstr("a grid, fields: 1"));
  EXPECT_EQ(noted[1].request.method, "SweepService.CancelSweep");
}

}  // namespace
}  // namespace mpsd::rpc
