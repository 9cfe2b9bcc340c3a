// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/audit_detail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/api_token.h"

namespace mpsd::rpc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(AuditDetail, ASpecIsToldByItsDigest) {
  v1::SubmitRequest request;
  request.set_spec_json("{}");
  request.set_priority(5);
  request.set_anyway(true);
  request.add_inputs();
  EXPECT_EQ(AuditDetail(request),
            "a spec with the SHA-256 44136fa355b3678a1146ad16f7, inputs: 1, "
            "priority 5, anyway");
  request.add_after("canary");
  EXPECT_EQ(AuditDetail(request),
            "a spec with the SHA-256 44136fa355b3678a1146ad16f7, inputs: 1, "
            "priority 5, anyway, after jobs: 1");
}

TEST(AuditDetail, WhatVerbsOfTheQueueAskFor) {
  v1::SubmitRequest submit;
  submit.set_held(true);
  EXPECT_THAT(AuditDetail(submit), HasSubstr(", held"));
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

TEST(AuditDetail, QuotesNothingOfASpec) {
  v1::SubmitRequest request;
  request.set_spec_json(R"({"model": "/canary"})");
  request.set_owner("canary");
  request.set_idempotency_key("canary");
  (*request.mutable_labels())["canary"] = "canary";
  request.add_inputs()->set_path("canary");
  EXPECT_THAT(AuditDetail(request), Not(HasSubstr("canary")));
}

TEST(AuditDetail, ASpecBeyondItsLimitIsNotRead) {
  v1::SubmitRequest request;
  request.set_spec_json(std::string(2 << 20, ' '));
  EXPECT_THAT(AuditDetail(request), HasSubstr("too long"));
}

TEST(AuditDetail, ACancelTellsWhetherItWaits) {
  v1::CancelRequest request;
  EXPECT_EQ(AuditDetail(request), "");
  request.set_now(true);
  EXPECT_EQ(AuditDetail(request), "now");
}

TEST(AuditDetail, ManyJobsAreCountedAndAFilterIsNotQuoted) {
  v1::DeleteJobsRequest request;
  request.add_ids("canary");
  request.add_ids("canary");
  EXPECT_EQ(AuditDetail(request), "2 jobs");
  request.Clear();
  request.mutable_filter()->set_text("canary");
  request.set_dry_run(true);
  EXPECT_EQ(AuditDetail(request), "jobs by a filter, dry run");
}

TEST(AuditDetail, ATokenIsToldByWhomItIsForAndHowLong) {
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
}

TEST(AuditDetail, ATokenThatGoesIsToldByItsId) {
  v1::RevokeTokenRequest request;
  request.set_id("0a1b2c3d4e5f");
  EXPECT_EQ(AuditDetail(request), "token 0a1b2c3d4e5f");
  // The token itself, given by mistake.
  request.set_id(base::ApiToken(std::string(32, 'k')));
  EXPECT_EQ(AuditDetail(request), "something that is no token's id");
}

TEST(AuditDetail, NotesAndTagsAreCountedAndNotQuoted) {
  v1::AddNoteRequest note;
  note.set_text("canary");
  EXPECT_EQ(AuditDetail(note), "a note of 6 bytes");
  v1::TagRequest tags;
  tags.add_add("canary");
  tags.add_remove("canary");
  tags.add_remove("canary");
  EXPECT_EQ(AuditDetail(tags), "adds 1 tags, removes 2");
}

}  // namespace
}  // namespace mpsd::rpc
