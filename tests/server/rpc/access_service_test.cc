// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/access_service.h"

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

using access::Caller;
using access::Role;
using access::Way;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Callers are who their token says; those without one are the admin.
class AccessServiceTest : public Served {
 protected:
  AccessServiceTest() : Served(ByToken(this)) {}

  static Options ByToken(AccessServiceTest* test) {
    Options options;
    options.identify = [test](const grpc::CallbackServerContext& context) {
      return test->Identified(context);
    };
    return options;
  }
  absl::StatusOr<Caller> Identified(
      const grpc::CallbackServerContext& context) {
    const auto& metadata = context.client_metadata();
    const auto token = metadata.find("authorization");
    if (token == metadata.end()) {
      return Caller{"root", Role::kAdmin, Way::kSocket, "uid 0", ""};
    }
    const std::optional<Caller> caller =
        tokens_->Find({token->second.data(), token->second.size()});
    if (!caller.has_value()) return absl::UnauthenticatedError("no token");
    return *caller;
  }

  std::unique_ptr<grpc::ClientContext> With(const std::string& secret) {
    auto context = std::make_unique<grpc::ClientContext>();
    if (!secret.empty()) context->AddMetadata("authorization", secret);
    return context;
  }
  // A token that lives for so long, made by the caller with `secret`.
  grpc::Status Create(const std::string& secret, const std::string& user,
                      v1::Role role, v1::CreateTokenResponse* response,
                      std::optional<absl::Duration> life = std::nullopt) {
    v1::CreateTokenRequest request;
    request.set_user(user);
    request.set_role(role);
    if (life.has_value()) {
      const absl::Time end = absl::Now() + *life;
      request.mutable_expire_time()->set_seconds(absl::ToUnixSeconds(end));
      request.mutable_expire_time()->set_nanos(
          static_cast<int>(absl::ToUnixNanos(end) % 1'000'000'000));
    }
    return access_->CreateToken(With(secret).get(), request, response);
  }
  grpc::Status Revoke(const std::string& secret, const std::string& id,
                      v1::RevokeTokenResponse* response) {
    v1::RevokeTokenRequest request;
    request.set_id(id);
    return access_->RevokeToken(With(secret).get(), request, response);
  }
  // A stream that ends only when it is ended.
  std::unique_ptr<grpc::ClientReader<v1::JobEvent>> Watch(
      grpc::ClientContext* context) {
    manager_.Put("job-1", jobs::State::kRunning);
    v1::WatchRequest request;
    request.set_id("job-1");
    auto reader = jobs_->Watch(context, request);
    EXPECT_TRUE(manager_.AwaitSubscribers(1));
    return reader;
  }
};

TEST_F(AccessServiceTest, ATokenIsMadeUsedListedAndRevokedOverTheWire) {
  v1::CreateTokenResponse made;
  ASSERT_TRUE(Create("", "ann", v1::ROLE_USER, &made).ok());
  v1::WhoAmIResponse who;
  ASSERT_TRUE(access_->WhoAmI(With(made.secret()).get(), {}, &who).ok());
  EXPECT_EQ(who.user(), "ann");
  EXPECT_EQ(who.role(), v1::ROLE_USER);
  EXPECT_EQ(who.token().id(), made.token().id());
  v1::ListTokensResponse listed;
  ASSERT_TRUE(access_->ListTokens(With(made.secret()).get(), {}, &listed).ok());
  EXPECT_EQ(listed.tokens_size(), 1);
  v1::RevokeTokenResponse revoked;
  EXPECT_TRUE(Revoke(made.secret(), made.token().id(), &revoked).ok());
  EXPECT_EQ(access_->WhoAmI(With(made.secret()).get(), {}, &who).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(AccessServiceTest, TheAuditOverTheWire) {
  v1::ListAuditResponse listed;
  ASSERT_TRUE(access_->ListAudit(With("").get(), {}, &listed).ok());
  EXPECT_EQ(listed.entries_size(), 3);
}

TEST_F(AccessServiceTest, AdminsAloneMakeTokens) {
  for (const v1::Role role : {v1::ROLE_VIEWER, v1::ROLE_USER}) {
    v1::CreateTokenResponse made, refused;
    ASSERT_TRUE(Create("", "eve", role, &made).ok());
    const grpc::Status status =
        Create(made.secret(), "eve", v1::ROLE_VIEWER, &refused);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
    EXPECT_THAT(status.error_message(), HasSubstr("needs the role admin"));
    EXPECT_THAT(refused.secret(), IsEmpty());
  }
  EXPECT_EQ(tokens_->List().size(), 2u);
}

TEST_F(AccessServiceTest, AStreamEndsWhenItsTokenIsRevoked) {
  v1::CreateTokenResponse made;
  ASSERT_TRUE(Create("", "ann", v1::ROLE_USER, &made).ok());
  auto context = With(made.secret());
  auto stream = Watch(context.get());
  v1::RevokeTokenResponse revoked;
  ASSERT_TRUE(Revoke("", made.token().id(), &revoked).ok());
  EXPECT_EQ(revoked.ended_streams(), 1);
  v1::JobEvent event;
  while (stream->Read(&event)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(AccessServiceTest, AStreamEndsWhenItsTokenExpires) {
  manager_.Put("job-1", jobs::State::kRunning);
  v1::WatchRequest request;
  request.set_id("job-1");
  v1::CreateTokenResponse made;
  std::unique_ptr<grpc::ClientContext> context;
  std::unique_ptr<grpc::ClientReader<v1::JobEvent>> stream;
  absl::Duration life = absl::Milliseconds(300);
  // On a busy machine the token may have ended before its stream is there: one
  // that lives longer, then.
  const auto is_watched = [&] {
    if (!Create("", "ann", v1::ROLE_USER, &made, life).ok()) return false;
    context = With(made.secret());
    stream = jobs_->Watch(context.get(), request);
    while (tokens_->Find(made.secret()) && manager_.subscribers() == 0) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    if (manager_.subscribers() == 1) return true;
    context->TryCancel();
    stream->Finish();
    EXPECT_TRUE(manager_.AwaitSubscribers(0));
    return false;
  };
  while (!is_watched()) {
    life *= 4;
    ASSERT_LT(life, absl::Minutes(2));
  }
  // As the daemon's thread does.
  std::thread tender([&] {
    while (tokens_->Find(made.secret()).has_value()) {
      absl::SleepFor(tokens_->Tend() - absl::Now());
    }
    tokens_->Tend();
  });
  v1::JobEvent event;
  while (stream->Read(&event)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  tender.join();
}

TEST_F(AccessServiceTest, TwoWhoMakeTokensAtOnceGetTwo) {
  std::string secrets[2];
  std::thread threads[2];
  for (int i : {0, 1}) {
    threads[i] = std::thread([&, i] {
      v1::CreateTokenResponse made;
      EXPECT_TRUE(Create("", "ann", v1::ROLE_USER, &made).ok());
      secrets[i] = made.secret();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(secrets[0], secrets[1]);
  for (const std::string& secret : secrets) {
    EXPECT_TRUE(tokens_->Find(secret).has_value());
  }
}

}  // namespace
}  // namespace mpsd::rpc
