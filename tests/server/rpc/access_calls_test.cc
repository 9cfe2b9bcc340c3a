// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/access_calls.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/api_token.h"
#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/test_store.h"

namespace mpsd::rpc {
namespace {

using access::Caller;
using access::Role;
using access::Way;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class AccessCallsTest : public testing::Test {
 protected:
  AccessCallsTest() {
    access::TokenBook::Options options = access::TokenBook::SystemOptions();
    options.end_streams = [](const std::string&) { return 2; };
    book_ = *access::TokenBook::Open(tokens_, clock_, std::move(options));
  }

  static v1::CreateTokenRequest Request(const std::string& user,
                                        v1::Role role = v1::ROLE_USER) {
    v1::CreateTokenRequest request;
    request.set_user(user);
    request.set_role(role);
    return request;
  }
  absl::Status Create(const v1::CreateTokenRequest& request,
                      v1::CreateTokenResponse* response = nullptr) {
    v1::CreateTokenResponse unused;
    return CreateToken(*book_, admin_, request, clock_.Now(),
                       response == nullptr ? unused : *response);
  }
  v1::CreateTokenResponse Created(const v1::CreateTokenRequest& request) {
    v1::CreateTokenResponse response;
    const absl::Status status = Create(request, &response);
    EXPECT_TRUE(status.ok()) << status;
    return response;
  }
  std::vector<std::string> UsersListedFor(const Caller& caller) {
    v1::ListTokensResponse response;
    EXPECT_TRUE(ListTokens(*book_, caller, response).ok());
    std::vector<std::string> users;
    for (const v1::Token& token : response.tokens()) {
      users.push_back(token.user());
    }
    return users;
  }
  absl::Status Revoke(const Caller& caller, const std::string& id) {
    v1::RevokeTokenRequest request;
    request.set_id(id);
    return RevokeToken(*book_, caller, request, revoked_);
  }
  void ExpectRefused(const v1::CreateTokenRequest& request,
                     const std::string& beginning) {
    const absl::Status status = Create(request);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), StartsWith(beginning));
    EXPECT_THAT(book_->List(), IsEmpty());
  }

  fakes::FakeClock clock_;
  fakes::TestStore db_;
  access::Tokens tokens_{db_.database()};
  std::unique_ptr<access::TokenBook> book_;
  v1::RevokeTokenResponse revoked_;
  const Caller admin_{"root", Role::kAdmin, Way::kSocket, "uid 0", ""};
  const Caller ann_{"ann", Role::kUser, Way::kSocket, "uid 501", ""};
  const Caller eve_{"eve", Role::kViewer, Way::kSocket, "uid 502", ""};
};

TEST_F(AccessCallsTest, TheSecretIsToldOnceAndTheRestIsKept) {
  v1::CreateTokenRequest request = Request("ann", v1::ROLE_VIEWER);
  request.set_note("laptop");
  request.mutable_expire_time()->set_seconds(1767225600 + 60);
  const v1::CreateTokenResponse made = Created(request);
  EXPECT_TRUE(base::IsApiToken(made.secret()));
  EXPECT_EQ(made.token().id().size(), 12u);
  EXPECT_EQ(made.token().user(), "ann");
  EXPECT_EQ(made.token().role(), v1::ROLE_VIEWER);
  EXPECT_EQ(made.token().note(), "laptop");
  EXPECT_EQ(made.token().created_by(), "root");
  EXPECT_EQ(made.token().create_time().seconds(), 1767225600);
  EXPECT_EQ(made.token().expire_time().seconds(), 1767225660);
  EXPECT_FALSE(made.token().has_last_use_time());
  v1::ListTokensResponse listed;
  ASSERT_TRUE(ListTokens(*book_, admin_, listed).ok());
  ASSERT_EQ(listed.tokens_size(), 1);
  EXPECT_EQ(listed.tokens(0).SerializeAsString(),
            made.token().SerializeAsString());
  EXPECT_EQ(listed.SerializeAsString().find(made.secret()), std::string::npos);
  EXPECT_FALSE(Created(Request("ann")).token().has_expire_time());
}

TEST_F(AccessCallsTest, NobodyMakesATokenAboveTheOwnRole) {
  for (const v1::Role role : {v1::ROLE_USER, v1::ROLE_ADMIN}) {
    v1::CreateTokenResponse response;
    const absl::Status status =
        CreateToken(*book_, eve_, Request("eve", role), clock_.Now(), response);
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("yours is viewer"));
  }
  EXPECT_THAT(book_->List(), IsEmpty());
}

TEST_F(AccessCallsTest, AHostileNameIsRefusedInWordsThatHarmNoTerminal) {
  for (const std::string& user :
       {std::string(), std::string("a b"), std::string("-rf"),
        std::string("ann\nroot"), std::string("\x1b[2Jann"),
        std::string("ann\0root", 8), std::string("\xff"),
        std::string("\u202enna"), std::string("../ann"),
        std::string("'; DROP TABLE tokens; --"),
        std::string(limits::kUserBytes + 1, 'a'), std::string(1 << 20, 'a')}) {
    ExpectRefused(Request(user), "user: '");
    const std::string message(Create(Request(user)).message());
    EXPECT_LT(message.size(), 300u);
    EXPECT_EQ(message.find('\x1b'), std::string::npos);
  }
  EXPECT_TRUE(Create(Request(std::string(limits::kUserBytes, 'a'))).ok());
}

TEST_F(AccessCallsTest, ANoteIsShortAndPrintableAndARoleOneOfThree) {
  v1::CreateTokenRequest request = Request("ann");
  request.set_note(std::string(limits::kTokenNoteBytes + 1, 'n'));
  ExpectRefused(request, "note: has 257 bytes, at most 256");
  request.set_note("two\nlines");
  ExpectRefused(request, "note: 'two\\nlines'");
  for (const int role : {0, 4, -1}) {
    ExpectRefused(Request("ann", static_cast<v1::Role>(role)), "role: must be");
  }
  request.set_note(std::string(limits::kTokenNoteBytes, 'n'));
  EXPECT_TRUE(Create(request).ok());
}

TEST_F(AccessCallsTest, AnExpiryIsAheadAndATime) {
  v1::CreateTokenRequest request = Request("ann");
  request.mutable_expire_time()->set_seconds(1767225600);
  ExpectRefused(request, "expire_time: 2026-01-01T00:00:00+00:00 is over");
  request.mutable_expire_time()->set_seconds(0);
  ExpectRefused(request, "expire_time: 1970");
  for (const int64_t seconds :
       {int64_t{-1}, int64_t{253'402'300'800}, INT64_MAX, INT64_MIN}) {
    request.mutable_expire_time()->set_seconds(seconds);
    ExpectRefused(request, "expire_time: must be a time");
  }
  request.mutable_expire_time()->set_seconds(253'402'300'799);
  for (const int nanos : {-1, 1'000'000'000}) {
    request.mutable_expire_time()->set_nanos(nanos);
    ExpectRefused(request, "expire_time: must be a time");
  }
  request.mutable_expire_time()->set_nanos(999'999'999);
  EXPECT_EQ(Created(request).token().expire_time().seconds(), 253'402'300'799);
}

TEST_F(AccessCallsTest, AdminsSeeAllTokensAndOthersTheirOwn) {
  Created(Request("ann"));
  Created(Request("bob"));
  Created(Request("ann", v1::ROLE_ADMIN));
  EXPECT_THAT(UsersListedFor(admin_), ElementsAre("ann", "bob", "ann"));
  EXPECT_THAT(UsersListedFor(ann_), ElementsAre("ann", "ann"));
  EXPECT_THAT(UsersListedFor(eve_), IsEmpty());
  const Caller nobody{"", Role::kViewer, Way::kPage, "", ""};
  EXPECT_THAT(UsersListedFor(nobody), IsEmpty());
}

TEST_F(AccessCallsTest, OthersRevokeTheirOwnAlone) {
  const std::string of_ann = Created(Request("ann")).token().id();
  const std::string of_bob = Created(Request("bob")).token().id();
  const absl::Status refused = Revoke(ann_, of_bob);
  EXPECT_TRUE(absl::IsNotFound(refused)) << refused;
  EXPECT_EQ(std::string(refused.message()),
            "id: there is no token " + of_bob + ", or it is another user's");
  EXPECT_TRUE(Revoke(ann_, of_ann).ok());
  EXPECT_EQ(revoked_.ended_streams(), 2);
  EXPECT_THAT(UsersListedFor(admin_), ElementsAre("bob"));
  EXPECT_TRUE(absl::IsNotFound(Revoke(admin_, "0a1b2c3d4e5f")));
  EXPECT_EQ(book_->List().size(), 1u);
  EXPECT_TRUE(Revoke(admin_, of_bob).ok());
}

// Whoever gives the token in the place of its id has not told it to the log.
TEST_F(AccessCallsTest, WhatIsNoIdIsNotQuoted) {
  const std::string secret = Created(Request("ann")).secret();
  for (const std::string& id :
       {secret, std::string(), std::string("canary"), std::string("\x1b[2J"),
        std::string(1 << 20, 'a'), tokens_.All().value()[0].sha256,
        std::string("0A1B2C3D4E5F")}) {
    const absl::Status status = Revoke(admin_, id);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(std::string(status.message()),
              "id: is not a token id, which has 12 hexadecimal digits; the "
              "list of tokens shows them");
  }
  EXPECT_TRUE(book_->Find(secret).has_value());
}

// The account that owns the daemon is an admin on the socket without a token,
// so the last admin's token can be revoked, by its own holder too.
TEST_F(AccessCallsTest, AnAdminMayRevokeTheTokenInUse) {
  const auto made = Created(Request("ann", v1::ROLE_ADMIN));
  const Caller caller = *book_->Find(made.secret());
  EXPECT_TRUE(Revoke(caller, made.token().id()).ok());
  EXPECT_FALSE(book_->Find(made.secret()).has_value());
  EXPECT_TRUE(Create(Request("ann", v1::ROLE_ADMIN)).ok());
}

TEST_F(AccessCallsTest, TellsWhoCallsAndByWhichToken) {
  v1::WhoAmIResponse who;
  ASSERT_TRUE(WhoAmI(*book_, eve_, std::nullopt, who).ok());
  EXPECT_EQ(who.user(), "eve");
  EXPECT_EQ(who.role(), v1::ROLE_VIEWER);
  EXPECT_EQ(who.way(), v1::WAY_SOCKET);
  EXPECT_FALSE(who.has_token());
  EXPECT_FALSE(who.has_certificate_expire_time());
  const auto made = Created(Request("ann"));
  const Caller caller = *book_->Find(made.secret());
  ASSERT_TRUE(WhoAmI(*book_, caller, absl::FromUnixSeconds(77), who).ok());
  EXPECT_EQ(who.user(), "ann");
  EXPECT_EQ(who.way(), v1::WAY_TOKEN);
  EXPECT_EQ(who.certificate_expire_time().seconds(), 77);
  EXPECT_EQ(who.token().id(), made.token().id());
  EXPECT_TRUE(who.token().has_last_use_time());
  who.Clear();
  ASSERT_TRUE(Revoke(caller, made.token().id()).ok());
  ASSERT_TRUE(WhoAmI(*book_, caller, absl::FromUnixSeconds(77), who).ok());
  EXPECT_EQ(who.user(), "ann");
  EXPECT_FALSE(who.has_token());
}

TEST_F(AccessCallsTest, AThousandTokensAreListedInOneAnswer) {
  v1::CreateTokenRequest request =
      Request(std::string(limits::kUserBytes, 'a'));
  request.set_note(std::string(limits::kTokenNoteBytes, 'n'));
  for (size_t i = 0; i < limits::kTokens; ++i) Created(request);
  EXPECT_TRUE(absl::IsResourceExhausted(Create(request)));
  v1::ListTokensResponse listed;
  ASSERT_TRUE(ListTokens(*book_, admin_, listed).ok());
  EXPECT_EQ(listed.tokens_size(), 1000);
  EXPECT_LT(listed.ByteSizeLong(), 1u << 20);
}

}  // namespace
}  // namespace mpsd::rpc
