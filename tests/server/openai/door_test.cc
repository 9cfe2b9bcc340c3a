// SPDX-License-Identifier: Apache-2.0
#include "server/openai/door.h"

#include <string>

#include "core/base/limits.h"
#include "tests/server/openai/fixture.h"

namespace mpsd::openai {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

using DoorTest = DoorFixture;

TEST_F(DoorTest, StrangersLearnNothing) {
  for (const char* target :
       {"/v1/files", "/v1/files/file-1", "/v1/fine_tuning/jobs", "/v1/models",
        "/v1/nowhere", "/", "nonsense", "/v1/files?limit=x"}) {
    for (const char* method : {"GET", "POST", "DELETE"}) {
      const http::Response refused = Ask(RequestOf(method, target, ""));
      EXPECT_EQ(refused.status, 401) << method << " " << target;
      EXPECT_EQ(JsonOf(refused)["error"]["code"], "invalid_api_key");
    }
  }
}

TEST_F(DoorTest, StrangersThatWouldChangeSomethingAreNoted) {
  Ask(RequestOf("POST", "/v1/fine_tuning/jobs", "mallory"));
  Ask(RequestOf("POST", "/v1/fine_tuning/jobs/" + IdOf(1) + "/cancel",
                "mallory"));
  Ask(RequestOf("DELETE", "/v1/files/file-" + IdOf(1), "mallory"));
  EXPECT_THAT(audit_.Take(), SizeIs(3));
}

TEST_F(DoorTest, ViewersReadAndChangeNothing) {
  manager_.Put(JobOf(7, jobs::State::kRunning));
  const std::string job = "/v1/fine_tuning/jobs/" + IdOf(7);
  for (const std::string& target :
       {std::string("/v1/models"), std::string("/v1/fine_tuning/jobs"), job,
        job + "/events", job + "/checkpoints"}) {
    EXPECT_EQ(Get(target, "eve").status, 200) << target;
  }
  EXPECT_EQ(Ask(RequestOf("POST", job + "/cancel", "eve")).status, 403);
  EXPECT_EQ(Ask(RequestOf("DELETE", "/v1/files/file-" + IdOf(1), "eve")).status,
            403);
  const http::Begun create =
      door_->Begin(RequestOf("POST", "/v1/fine_tuning/jobs", "eve"));
  ASSERT_TRUE(std::holds_alternative<http::Response>(create));
  EXPECT_EQ(std::get<http::Response>(create).status, 403);
}

TEST_F(DoorTest, OtherAddressesAreNone) {
  for (const auto& [method, target] :
       {std::pair{"GET", "/"}, std::pair{"GET", "/v1"},
        std::pair{"GET", "/v1/chat/completions"},
        std::pair{"POST", "/v1/models"}, std::pair{"DELETE", "/v1/models/mine"},
        std::pair{"DELETE", "/v1/files"}, std::pair{"GET", "/v2/files"},
        std::pair{"POST", "/v1/files/file-1"},
        std::pair{"GET", "/v1/files/a/b/c"},
        std::pair{"GET", "/v1/files/a/contents"},
        std::pair{"GET", "/v1/fine_tuning"},
        std::pair{"GET", "/v1/fine_tuning/jobs/a/b"},
        std::pair{"GET", "/v1/fine_tuning/jobs/a/cancel"},
        std::pair{"POST", "/v1/fine_tuning/jobs/a"},
        std::pair{"POST", "/v1/fine_tuning/jobs/a/events"}}) {
    const http::Response response = Ask(RequestOf(method, target));
    EXPECT_EQ(response.status, 404) << method << " " << target;
    EXPECT_EQ(JsonOf(response)["error"]["code"], "unknown_url");
  }
  const http::Response hostile = Ask(RequestOf("GET", "/v1/%1b[2J"));
  EXPECT_EQ(hostile.status, 400);
  EXPECT_THAT(hostile.body, Not(HasSubstr("\x1b")));
}

TEST_F(DoorTest, JsonHasABound) {
  http::Request request = RequestOf("POST", "/v1/fine_tuning/jobs");
  const std::string most =
      "{\"model\": \"" + std::string(limits::kHttpBodyBytes - 12, 'm') + "\"";
  EXPECT_EQ(Ask(request, most, 100'000).status, 400);
  EXPECT_EQ(Ask(request, most + "  ", 100'000).status, 413);
  request.content_length = limits::kHttpBodyBytes + 1;
  EXPECT_TRUE(std::holds_alternative<http::Response>(door_->Begin(request)));
  EXPECT_THAT(submitted_, testing::IsEmpty());
}

}  // namespace
}  // namespace mpsd::openai
