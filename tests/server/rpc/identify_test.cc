// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/identify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "server/access/token_book.h"
#include "tests/server/rpc/fake_audit.h"
#include "tests/server/rpc/fake_tokens.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

// The real server, which takes its callers from its connections.
TEST(IdentifyTest, ACallIsTheAccountsThatConnectedOrTheTokensOwners) {
  FakeTokens tokens;
  tokens.Put("good", "eve", access::Role::kAdmin);
  FakeAudit audit;
  Scratch scratch;
  FakeManager manager(scratch.path() / "jobs");
  FakeBlobs blobs;
  manager.Put("a", jobs::State::kQueued);
  Options options;
  options.addresses = {"unix:" + (scratch.path() / "s").string(),
                       "127.0.0.1:0"};
  options.callers.tokens = &tokens;
  options.audit = &audit;
  RpcServer server(options, manager, manager, blobs, {});
  ASSERT_TRUE(server.Start().ok());
  std::vector<access::Caller> callers;
  for (const std::string& address : server.addresses()) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer good");
    v1::CancelRequest request;
    request.set_id("a");
    v1::Job job;
    v1::JobService::NewStub(
        grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))
        ->Cancel(&context, request, &job);
    for (const FakeAudit::Entry& entry : audit.Take()) {
      callers.push_back(entry.request.caller);
    }
  }
  EXPECT_THAT(
      callers,
      testing::ElementsAre(
          access::Caller{*access::AccountName(geteuid()), access::Role::kAdmin,
                         access::Way::kSocket,
                         "uid " + std::to_string(geteuid()), "this machine"},
          access::Caller{"eve", access::Role::kAdmin, access::Way::kToken,
                         "token 0a1b2c3d4e5f", "127.0.0.1"}));
}

}  // namespace
}  // namespace mpsd::rpc
