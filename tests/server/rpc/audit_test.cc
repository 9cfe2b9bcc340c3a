// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/api_token.h"
#include "core/base/limits.h"
#include "server/rpc/access_calls.h"
#include "tests/fakes/test_store.h"
#include "server/rpc/streams.h"

namespace mpsd::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

TEST(AuditDetail, ASpecIsToldByItsDigest) {
  v1::SubmitRequest request;
  request.set_spec_json("{}");
  request.set_priority(5);
  request.set_anyway(true);
  request.add_inputs();
  const std::string detail =
      "a spec with the SHA-256 44136fa355b3678a1146ad16f7, inputs: 1, "
      "priority 5, anyway";
  EXPECT_EQ(AuditDetail(request), detail);
  request.add_after("canary");
  EXPECT_EQ(AuditDetail(request), detail + ", after jobs: 1");
  request.set_held(true);
  EXPECT_EQ(AuditDetail(request), detail + ", after jobs: 1, held");
  // Nothing of it is quoted, and nothing read beyond its limit.
  request.set_spec_json(R"({"model": "/canary"})");
  request.set_owner("canary");
  request.set_idempotency_key("canary");
  (*request.mutable_labels())["canary"] = "canary";
  request.add_inputs()->set_path("canary");
  EXPECT_THAT(AuditDetail(request), Not(HasSubstr("canary")));
  request.set_spec_json(std::string(2 << 20, ' '));
  EXPECT_THAT(AuditDetail(request), HasSubstr("too long"));
}

TEST(AuditDetail, WhatVerbsOfTheQueueAskFor) {
  v1::CancelRequest cancel;
  EXPECT_EQ(AuditDetail(cancel), "");
  cancel.set_now(true);
  EXPECT_EQ(AuditDetail(cancel), "now");
  v1::MoveRequest move;
  EXPECT_EQ(AuditDetail(move), "nowhere");
  move.set_top(true);
  EXPECT_EQ(AuditDetail(move), "to the top");
  move.set_bottom(true);
  EXPECT_EQ(AuditDetail(move), "to the bottom");
  move.set_priority(-4);
  EXPECT_EQ(AuditDetail(move), "to priority -4");
  v1::RetryRequest retry;
  EXPECT_EQ(AuditDetail(retry), "");
  retry.set_from_scratch(true);
  EXPECT_EQ(AuditDetail(retry), "from scratch");
  v1::DrainRequest drain;
  drain.set_reason(std::string(1 << 20, 'x') + "\x1b");
  EXPECT_LT(AuditDetail(drain).size(), 1000u);
  v1::DiagnoseRequest deep;
  EXPECT_EQ(AuditDetail(deep), "");
  deep.set_deep(true);
  EXPECT_EQ(AuditDetail(deep), "measures the disk, runs the self-test");
}

TEST(AuditDetail, WhatMayBePrivateIsCountedAndNotQuoted) {
  v1::DeleteJobsRequest request;
  request.add_ids("canary");
  request.add_ids("canary");
  EXPECT_EQ(AuditDetail(request), "2 jobs");
  request.Clear();
  request.mutable_filter()->set_text("canary");
  request.set_dry_run(true);
  EXPECT_EQ(AuditDetail(request), "jobs by a filter, dry run");
  v1::AddNoteRequest note;
  note.set_text("canary");
  EXPECT_EQ(AuditDetail(note), "a note of 6 bytes");
  v1::TagRequest tags;
  tags.add_add("canary");
  tags.add_remove("canary");
  tags.add_remove("canary");
  EXPECT_EQ(AuditDetail(tags), "adds 1 tags, removes 2");
}

TEST(AuditDetail, ATokenIsToldByWhomItIsForAndHowLongAndByItsId) {
  v1::CreateTokenRequest request;
  request.set_user("ada");
  request.set_role(v1::ROLE_ADMIN);
  request.set_note("canary");
  EXPECT_EQ(AuditDetail(request), "for ada, admin, for ever");
  request.mutable_expire_time()->set_seconds(1767323045);
  EXPECT_EQ(AuditDetail(request), "for ada, admin, until 2026-01-02 03:04 UTC");
  request.set_role(static_cast<v1::Role>(77));
  request.set_user("\x1b[2J");
  EXPECT_THAT(AuditDetail(request), HasSubstr("\\x1b[2J, role 77"));
  v1::RevokeTokenRequest revoke;
  revoke.set_id("0a1b2c3d4e5f");
  EXPECT_EQ(AuditDetail(revoke), "token 0a1b2c3d4e5f");
  // The token itself, given by mistake.
  revoke.set_id(base::ApiToken(std::string(32, 'k')));
  EXPECT_EQ(AuditDetail(revoke), "an invalid token id");
}

class ListAuditTest : public testing::Test {
 protected:
  absl::Status List(const access::Caller& caller) {
    response_.Clear();
    return ListAudit(audit_, caller, request_, response_);
  }
  void Put(const access::AuditEntry& entry) {
    EXPECT_TRUE(audit_.Append(entry).ok());
  }
  // An entry that FiltersReachTheStore asks for.
  access::AuditEntry Refused() const {
    access::AuditEntry entry;
    entry.time = absl::FromUnixSeconds(15);
    entry.request = {user_, "JobService.Cancel", "01J", "now"};
    entry.result = absl::StatusCode::kPermissionDenied;
    entry.message = "not yours";
    return entry;
  }
  bool Refuses(const v1::ListAuditRequest& request) {
    request_ = request;
    return absl::IsInvalidArgument(List(admin_));
  }

  const access::Caller admin_{"root", access::Role::kAdmin,
                              access::Way::kSocket, "uid 0", "this machine"};
  const access::Caller user_{"ada", access::Role::kUser, access::Way::kToken,
                             "token 0a1b2c3d4e5f", "192.168.1.7"};
  fakes::TestStore db_;
  access::AuditStore audit_{db_.database()};
  v1::ListAuditRequest request_;
  v1::ListAuditResponse response_;
};

TEST_F(ListAuditTest, TellsEveryField) {
  Put(Refused());
  ASSERT_TRUE(List(admin_).ok());
  ASSERT_THAT(response_.entries(), SizeIs(1));
  const v1::AuditEntry& entry = response_.entries(0);
  EXPECT_EQ(entry.time().seconds(), 15);
  EXPECT_EQ(entry.user(), "ada");
  EXPECT_EQ(entry.role(), v1::ROLE_USER);
  EXPECT_EQ(entry.way(), v1::WAY_TOKEN);
  EXPECT_EQ(entry.credential(), "token 0a1b2c3d4e5f");
  EXPECT_EQ(entry.origin(), "192.168.1.7");
  EXPECT_EQ(entry.method(), "JobService.Cancel");
  EXPECT_EQ(entry.job_id(), "01J");
  EXPECT_EQ(entry.detail(), "now");
  EXPECT_EQ(entry.result(), "PERMISSION_DENIED");
  EXPECT_EQ(entry.message(), "not yours");
  // A call without an answer has no result, and a stranger no role.
  Put({});
  ASSERT_TRUE(List(admin_).ok());
  EXPECT_EQ(response_.entries(0).result(), "");
  EXPECT_EQ(response_.entries(0).role(), v1::ROLE_UNSPECIFIED);
}

TEST_F(ListAuditTest, GoesOnPageByPageOfOneFilter) {
  for (int i = 0; i < 5; ++i) Put({});
  request_.set_page_size(2);
  std::vector<std::vector<int64_t>> pages;
  std::string first;
  do {
    ASSERT_TRUE(List(admin_).ok());
    pages.emplace_back();
    for (const v1::AuditEntry& entry : response_.entries()) {
      pages.back().push_back(entry.sequence());
    }
    if (first.empty()) first = response_.next_page_token();
    request_.set_page_token(response_.next_page_token());
  } while (!request_.page_token().empty());
  EXPECT_THAT(
      pages, ElementsAre(ElementsAre(5, 4), ElementsAre(3, 2), ElementsAre(1)));
  request_.set_page_token(first);
  request_.set_user("ada");
  const absl::Status status = List(admin_);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("page_token:"));
  request_.set_page_token("9223372036854775808.0");
  EXPECT_TRUE(absl::IsInvalidArgument(List(admin_)));
}

TEST_F(ListAuditTest, AUserSeesWhatTheUserDid) {
  Put(Refused());
  Put({});
  ASSERT_TRUE(List(user_).ok());
  ASSERT_THAT(response_.entries(), SizeIs(1));
  EXPECT_EQ(response_.entries(0).user(), "ada");
  request_.set_user("ada");
  EXPECT_TRUE(List(user_).ok());
  request_.set_user("bob");
  const absl::Status status = List(user_);
  EXPECT_TRUE(absl::IsPermissionDenied(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("role admin"));
  access::Caller nobody = user_;
  nobody.user.clear();
  request_.clear_user();
  EXPECT_TRUE(absl::IsPermissionDenied(List(nobody)));
}

TEST_F(ListAuditTest, FiltersReachTheStore) {
  request_.set_job_id("01J");
  request_.set_method("Cancel");
  request_.set_refused(true);
  request_.mutable_since()->set_seconds(10);
  request_.mutable_until()->set_seconds(20);
  Put(Refused());
  std::vector<access::AuditEntry> others(5, Refused());
  others[0].request.job_id = "01K";
  others[1].request.method = "JobService.Hold";
  others[2].result = absl::StatusCode::kOk;
  others[3].time = absl::FromUnixSeconds(9);
  others[4].time = absl::FromUnixSeconds(20);
  for (const access::AuditEntry& other : others) Put(other);
  ASSERT_TRUE(List(admin_).ok());
  ASSERT_THAT(response_.entries(), SizeIs(1));
  EXPECT_EQ(response_.entries(0).sequence(), 1);
}

TEST_F(ListAuditTest, BoundsItsFields) {
  v1::ListAuditRequest request;
  request.set_page_size(limits::kAuditPage);
  EXPECT_FALSE(Refuses(request));
  request.set_page_size(limits::kAuditPage + 1);
  EXPECT_TRUE(Refuses(request));
  request.set_page_size(-1);
  EXPECT_TRUE(Refuses(request));
  request = {};
  request.set_user(std::string(limits::kOwnerBytes + 1, 'a'));
  EXPECT_TRUE(Refuses(request));
  request = {};
  request.set_method(std::string(limits::kKeyBytes + 1, 'a'));
  EXPECT_TRUE(Refuses(request));
  request = {};
  request.set_job_id(std::string(limits::kIdBytes + 1, 'a'));
  EXPECT_TRUE(Refuses(request));
}

}  // namespace
}  // namespace mpsd::rpc
