// SPDX-License-Identifier: Apache-2.0
#include "server/openai/desk.h"

#include <stdexcept>
#include <string>

#include "tests/server/openai/fixture.h"

namespace mpsd::openai {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;

class DeskTest : public DoorFixture {
 protected:
  const Desk desk_{MakeBackend()};
};

TEST_F(DeskTest, TheTokensOwnerCalls) {
  const auto caller = desk_.CallerOf(RequestOf("GET", "/"));
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(caller->user, "ada");
  EXPECT_EQ(caller->way, access::Way::kToken);
  EXPECT_EQ(caller->origin, "10.0.0.1");
  http::Request local = RequestOf("GET", "/");
  local.peer = "";
  EXPECT_EQ(desk_.CallerOf(local)->origin, "this machine");
}

TEST_F(DeskTest, NobodyElseDoes) {
  http::Request request = RequestOf("GET", "/", "");
  EXPECT_THAT(std::string(desk_.CallerOf(request).status().message()),
              HasSubstr("api_key"));
  for (const std::string& line :
       {std::string("Bearer mallory"), std::string("Basic ada"),
        std::string("Bearer "), std::string("ada"), std::string("Bearer  ada"),
        std::string("Bearer ada "), "Bearer " + std::string(2000, 'a')}) {
    request.authorization = line;
    const absl::Status refused = desk_.CallerOf(request).status();
    EXPECT_TRUE(absl::IsUnauthenticated(refused)) << line;
    EXPECT_THAT(std::string(refused.message()), Not(HasSubstr("mallory")));
  }
}

TEST_F(DeskTest, ACallIsAuditedAndCounted) {
  const absl::Status done =
      desk_.Call(RequestOf("POST", "/"), {"JobService.Submit", "", "a detail"},
                 [](rpc::Call& call) {
                   call.made_job_id = "J";
                   EXPECT_EQ(call.rights.caller().user, "ada");
                   return absl::NotFoundError("gone");
                 });
  EXPECT_TRUE(absl::IsNotFound(done));
  const auto entries = audit_.Take();
  ASSERT_THAT(entries, SizeIs(1));
  EXPECT_EQ(entries[0].request.method, "JobService.Submit");
  EXPECT_EQ(entries[0].request.detail, "a detail");
  EXPECT_EQ(entries[0].request.caller.user, "ada");
  EXPECT_EQ(entries[0].made_job_id, "J");
  EXPECT_TRUE(absl::IsNotFound(entries[0].result));
  EXPECT_THAT(calls_.Await(1), ElementsAre(Pair("JobService.Submit",
                                                absl::StatusCode::kNotFound)));
  EXPECT_EQ(calls_.open("JobService.Submit"), 0);
}

TEST_F(DeskTest, ARefusedCallDoesNothingAndIsNoted) {
  for (const char* user : {"eve", "mallory"}) {
    const absl::Status refused =
        desk_.Call(RequestOf("POST", "/", user), {"JobService.Submit"},
                   [](rpc::Call&) -> absl::Status {
                     ADD_FAILURE() << "it was done";
                     return absl::OkStatus();
                   });
    EXPECT_FALSE(refused.ok());
  }
  const auto entries = audit_.Take();
  ASSERT_THAT(entries, SizeIs(2));
  EXPECT_TRUE(entries[0].refused && entries[1].refused);
  EXPECT_EQ(entries[1].request.caller.user, "");
  EXPECT_EQ(entries[1].request.caller.origin, "10.0.0.1");
}

TEST_F(DeskTest, AnExceptionEndsOneCall) {
  const absl::Status failed = desk_.Call(
      RequestOf("GET", "/"), {"JobService.Get"},
      [](rpc::Call&) -> absl::Status { throw std::runtime_error("a secret"); });
  EXPECT_TRUE(absl::IsInternal(failed)) << failed;
  EXPECT_THAT(log_, HasSubstr("JobService.Get"));
  EXPECT_THAT(log_, Not(HasSubstr("a secret")));
}

}  // namespace
}  // namespace mpsd::openai
