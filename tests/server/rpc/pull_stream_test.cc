// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/pull_stream.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/fake_puller.h"

namespace mpsd::rpc {
namespace {

using ::testing::HasSubstr;

access::Rights RightsOf(const std::string& user,
                        access::Role role = access::Role::kUser) {
  access::Caller caller;
  caller.user = user;
  caller.role = role;
  return access::Rights(caller, /*private_jobs=*/false);
}

class PullStreamTest : public testing::Test {
 protected:
  PullStreamTest() { limits_.upload_bytes = 7; }
  std::unique_ptr<Source<v1::PullModelProgress>> Make() {
    return MakePullSource(
        &puller_, RightsOf("ada"), limits_, request_,
        [](const std::string& id, v1::Model& model) { model.set_name(id); },
        [this] { ++woken_; });
  }

  FakePuller puller_;
  jobs::UserLimits limits_;
  v1::PullModelRequest request_;
  v1::PullModelProgress message_;
  int woken_ = 0;
};

TEST_F(PullStreamTest, ReportsTheNewsUntilTheModelIsThere) {
  request_.set_id("org/model");
  const auto source = Make();
  EXPECT_TRUE(puller_.requests().empty()) << "before the gate let it begin";
  EXPECT_EQ(*source->Next(message_), Pull::kWait);
  ASSERT_EQ(puller_.requests().size(), 1u);
  EXPECT_EQ(puller_.requests()[0].id, "org/model");
  EXPECT_EQ(puller_.requests()[0].revision, "main");
  EXPECT_EQ(puller_.requests()[0].user, "ada");
  EXPECT_FALSE(puller_.requests()[0].is_admin);
  EXPECT_EQ(puller_.requests()[0].limits.upload_bytes, 7);

  puller_.Tell(models::PullNews{5, "model.safetensors: 50%"});
  EXPECT_EQ(woken_, 1);
  EXPECT_EQ(*source->Next(message_), Pull::kMessage);
  EXPECT_EQ(message_.received_bytes(), 5);
  EXPECT_EQ(message_.note(), "model.safetensors: 50%");
  EXPECT_FALSE(message_.has_model()) << "before the model is there";
  EXPECT_EQ(*source->Next(message_), Pull::kWait);

  puller_.Tell(models::PullNews{10, "", /*done=*/true});
  message_.Clear();
  EXPECT_EQ(*source->Next(message_), Pull::kMessage);
  EXPECT_EQ(message_.model().name(), "org/model");
  EXPECT_EQ(*source->Next(message_), Pull::kEnd);
  EXPECT_EQ(puller_.requests().size(), 1u) << "a pull begins once";
}

TEST_F(PullStreamTest, EndsAsThePullEnds) {
  request_.set_id("org/model");
  const auto source = Make();
  EXPECT_EQ(*source->Next(message_), Pull::kWait);
  puller_.Tell(absl::DataLossError("another hash"));
  EXPECT_EQ(source->Next(message_).status(),
            absl::DataLossError("another hash"));
}

TEST_F(PullStreamTest, WhatIsNoIdReachesNoHub) {
  request_.set_id("../../etc");
  EXPECT_EQ(Make()->Next(message_).status().code(),
            absl::StatusCode::kInvalidArgument);
  request_.set_id("org/model");
  request_.set_revision("main?x=1");
  EXPECT_THAT(std::string(Make()->Next(message_).status().message()),
              HasSubstr("revision: 'main?x=1'"));
  EXPECT_TRUE(puller_.requests().empty());
}

TEST_F(PullStreamTest, WithoutAHubPullsAreOff) {
  request_.set_id("org/model");
  const absl::Status off =
      MakePullSource(nullptr, RightsOf("ada"), {}, request_, {}, [] {})
          ->Next(message_)
          .status();
  EXPECT_EQ(off.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(off.message()), HasSubstr("mpsctl model push"));
  v1::CancelPullRequest cancel;
  cancel.set_id("org/model");
  EXPECT_EQ(CancelPull(nullptr, RightsOf("ada"), cancel), off);
}

TEST_F(PullStreamTest, CancelSaysWhoAsks) {
  v1::CancelPullRequest cancel;
  cancel.set_id("org/model");
  cancel.set_revision("v1");
  EXPECT_TRUE(
      CancelPull(&puller_, RightsOf("root", access::Role::kAdmin), cancel)
          .ok());
  ASSERT_EQ(puller_.cancelled().size(), 1u);
  EXPECT_EQ(puller_.cancelled()[0].revision, "v1");
  EXPECT_EQ(puller_.cancelled()[0].user, "root");
  EXPECT_TRUE(puller_.cancelled()[0].is_admin);
  puller_.Refuse(absl::NotFoundError("no such pull"));
  EXPECT_TRUE(absl::IsNotFound(CancelPull(&puller_, RightsOf("ada"), cancel)));
  cancel.set_id("..");
  EXPECT_TRUE(
      absl::IsInvalidArgument(CancelPull(&puller_, RightsOf("ada"), cancel)));
}

}  // namespace
}  // namespace mpsd::rpc
