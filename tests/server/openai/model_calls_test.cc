// SPDX-License-Identifier: Apache-2.0
#include "server/openai/model_calls.h"

#include <string>

#include "tests/server/openai/fixture.h"

namespace mpsd::openai {
namespace {

using ModelCallsTest = DoorFixture;

TEST_F(ModelCallsTest, ListsModelsAndTheCallersResults) {
  manager_.Put(JobOf(7, jobs::State::kSucceeded));
  const auto list = JsonOf(Get("/v1/models"));
  EXPECT_EQ(list["object"], "list");
  ASSERT_EQ(list["data"].size(), 3u);
  EXPECT_EQ(list["data"][0]["id"], "org/base");
  EXPECT_EQ(list["data"][0]["created"], 7);
  EXPECT_EQ(list["data"][1]["owned_by"], "ada");
  EXPECT_EQ(list["data"][2]["id"], "job:" + IdOf(7));
  EXPECT_EQ(manager_.last_filter().owner, "ada");
  EXPECT_THAT(manager_.last_filter().states,
              testing::ElementsAre(jobs::State::kSucceeded));
}

TEST_F(ModelCallsTest, FindsOneByItsName) {
  EXPECT_EQ(JsonOf(Get("/v1/models/mine"))["id"], "mine");
  EXPECT_EQ(JsonOf(Get("/v1/models/org/base"))["id"], "org/base");
  EXPECT_EQ(JsonOf(Get("/v1/models/org%2Fbase"))["id"], "org/base");
  EXPECT_EQ(Get("/v1/models/other").status, 404);
  EXPECT_EQ(Get("/v1/models/a/b/c").status, 404);
  manager_.Put(JobOf(7, jobs::State::kSucceeded));
  manager_.Put(JobOf(8, jobs::State::kRunning));
  EXPECT_EQ(Get("/v1/models/job:" + IdOf(7)).status, 200);
  EXPECT_EQ(Get("/v1/models/job:" + IdOf(8)).status, 404);
  EXPECT_EQ(Get("/v1/models/job:" + IdOf(9)).status, 404);
  door_.emplace(MakeBackend(/*private_jobs=*/true));
  EXPECT_EQ(Get("/v1/models/job:" + IdOf(7)).status, 200);
  EXPECT_EQ(Get("/v1/models/job:" + IdOf(7), "bob").status, 404);
}

TEST_F(ModelCallsTest, WithoutModelsTheListIsEmpty) {
  Backend backend = MakeBackend();
  backend.list_models = {};
  door_.emplace(std::move(backend));
  EXPECT_EQ(JsonOf(Get("/v1/models"))["data"].size(), 0u);
  EXPECT_EQ(Get("/v1/models/mine").status, 404);
}

}  // namespace
}  // namespace mpsd::openai
