// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/list_audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/limits.h"
#include "tests/server/rpc/fake_audit_store.h"

namespace mpsd::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const access::Caller kAdmin{"root", access::Role::kAdmin, access::Way::kSocket,
                            "uid 0", "this machine"};
const access::Caller kUser{"ada", access::Role::kUser, access::Way::kToken,
                           "token 0a1b2c3d4e5f", "192.168.1.7"};

std::vector<int64_t> Numbers(const v1::ListAuditResponse& response) {
  std::vector<int64_t> numbers;
  for (const v1::AuditEntry& entry : response.entries()) {
    numbers.push_back(entry.sequence());
  }
  return numbers;
}

TEST(ListAudit, TellsEveryField) {
  FakeAuditStore audit(1);
  audit.entry_.time = absl::FromUnixSeconds(77);
  audit.entry_.request = {kUser, "JobService.Cancel", "01J", "now"};
  audit.entry_.result = absl::StatusCode::kPermissionDenied;
  audit.entry_.message = "not yours";
  v1::ListAuditResponse response;
  ASSERT_TRUE(ListAudit(audit, kAdmin, {}, response).ok());
  ASSERT_THAT(response.entries(), SizeIs(1));
  const v1::AuditEntry& entry = response.entries(0);
  EXPECT_EQ(entry.time().seconds(), 77);
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
}

TEST(ListAudit, ACallWithoutAnAnswerHasNoResultAndAStrangerNoRole) {
  FakeAuditStore audit(1);
  v1::ListAuditResponse response;
  ASSERT_TRUE(ListAudit(audit, kAdmin, {}, response).ok());
  EXPECT_EQ(response.entries(0).result(), "");
  EXPECT_EQ(response.entries(0).role(), v1::ROLE_UNSPECIFIED);
}

TEST(ListAudit, GoesOnPageByPage) {
  FakeAuditStore audit(5);
  v1::ListAuditRequest request;
  request.set_page_size(2);
  std::vector<std::vector<int64_t>> pages;
  do {
    v1::ListAuditResponse response;
    ASSERT_TRUE(ListAudit(audit, kAdmin, request, response).ok());
    pages.push_back(Numbers(response));
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(
      pages, ElementsAre(ElementsAre(5, 4), ElementsAre(3, 2), ElementsAre(1)));
}

TEST(ListAudit, ATokenOfAnotherFilterIsRefused) {
  FakeAuditStore audit(5);
  v1::ListAuditRequest request;
  request.set_page_size(2);
  v1::ListAuditResponse response;
  ASSERT_TRUE(ListAudit(audit, kAdmin, request, response).ok());
  request.set_page_token(response.next_page_token());
  request.set_user("ada");
  const absl::Status status = ListAudit(audit, kAdmin, request, response);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("page_token:"));
  request.set_page_token("9223372036854775808.0");
  EXPECT_TRUE(
      absl::IsInvalidArgument(ListAudit(audit, kAdmin, request, response)));
}

TEST(ListAudit, AUserSeesWhatTheUserDid) {
  FakeAuditStore audit(1);
  v1::ListAuditResponse response;
  ASSERT_TRUE(ListAudit(audit, kUser, {}, response).ok());
  EXPECT_EQ(audit.filter_.user, "ada");
  v1::ListAuditRequest request;
  request.set_user("ada");
  EXPECT_TRUE(ListAudit(audit, kUser, request, response).ok());
  request.set_user("bob");
  const absl::Status status = ListAudit(audit, kUser, request, response);
  EXPECT_TRUE(absl::IsPermissionDenied(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("role admin"));
  access::Caller nobody = kUser;
  nobody.user.clear();
  EXPECT_TRUE(absl::IsPermissionDenied(ListAudit(audit, nobody, {}, response)));
}

TEST(ListAudit, FiltersReachTheStore) {
  FakeAuditStore audit(1);
  v1::ListAuditRequest request;
  request.set_job_id("01J");
  request.set_method("Cancel");
  request.set_refused(true);
  request.mutable_since()->set_seconds(10);
  request.mutable_until()->set_seconds(20);
  v1::ListAuditResponse response;
  ASSERT_TRUE(ListAudit(audit, kAdmin, request, response).ok());
  EXPECT_EQ(audit.filter_.job_id, "01J");
  EXPECT_EQ(audit.filter_.method, "Cancel");
  EXPECT_TRUE(audit.filter_.refused);
  EXPECT_EQ(audit.filter_.since, absl::FromUnixSeconds(10));
  EXPECT_EQ(audit.filter_.until, absl::FromUnixSeconds(20));
}

TEST(ListAudit, BoundsItsFields) {
  FakeAuditStore audit(1);
  v1::ListAuditResponse response;
  const auto refuses = [&](const v1::ListAuditRequest& request) {
    return absl::IsInvalidArgument(ListAudit(audit, kAdmin, request, response));
  };
  v1::ListAuditRequest request;
  request.set_page_size(limits::kAuditPage);
  EXPECT_FALSE(refuses(request));
  request.set_page_size(limits::kAuditPage + 1);
  EXPECT_TRUE(refuses(request));
  request.set_page_size(-1);
  EXPECT_TRUE(refuses(request));
  request = {};
  request.set_user(std::string(limits::kOwnerBytes + 1, 'a'));
  EXPECT_TRUE(refuses(request));
  request = {};
  request.set_method(std::string(limits::kKeyBytes + 1, 'a'));
  EXPECT_TRUE(refuses(request));
  request = {};
  request.set_job_id(std::string(limits::kIdBytes + 1, 'a'));
  EXPECT_TRUE(refuses(request));
}

}  // namespace
}  // namespace mpsd::rpc
