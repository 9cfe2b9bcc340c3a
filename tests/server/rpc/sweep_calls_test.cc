// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/sweep_calls.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/fake_manager.h"
#include "tests/server/rpc/fake_sweeps.h"

namespace mpsd::rpc {
namespace {

using access::Role;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

Call CallOf(const std::string& user, Role role = Role::kUser,
            bool private_jobs = false) {
  access::Caller caller;
  caller.user = user;
  caller.role = role;
  return {access::Rights(caller, private_jobs), {}, ""};
}

class SweepCallsTest : public testing::Test {
 protected:
  static v1::CreateSweepRequest Asked() {
    v1::CreateSweepRequest request;
    request.mutable_submission()->set_spec_json(
        R"({"model": "org/tiny", "name": "t",
            "dataset": {"train": "/t", "eval": "/e"}})");
    v1::SweepParameter& ranks = *request.add_parameters();
    ranks.set_field("lora.r");
    ranks.mutable_choices()->add_values("4");
    ranks.mutable_choices()->add_values("8");
    return request;
  }
  absl::Status Create(Call call, v1::Sweep* sweep,
                      const v1::CreateSweepRequest& request = Asked()) {
    fakes_.clock.Advance(absl::Milliseconds(1));
    return CreateSweep(fakes_.book(), manager_, nullptr, request, call, *sweep);
  }
  std::string Made(const std::string& user) {
    v1::Sweep sweep;
    const absl::Status status = Create(CallOf(user), &sweep);
    EXPECT_TRUE(status.ok()) << status;
    return sweep.id();
  }
  absl::Status Get(const std::string& id, const Call& call, v1::Sweep* sweep) {
    v1::GetSweepRequest request;
    request.set_id(id);
    return GetSweep(fakes_.book(), call.rights, request, *sweep);
  }

  FakeManager manager_{testing::TempDir()};
  FakeSweeps fakes_{manager_};
};

TEST_F(SweepCallsTest, CreateAnswersWithTheChildren) {
  v1::Sweep sweep;
  ASSERT_TRUE(Create(CallOf("ann"), &sweep).ok());
  EXPECT_EQ(sweep.owner(), "ann");
  EXPECT_EQ(sweep.name(), "t");
  EXPECT_EQ(sweep.total(), 2);
  EXPECT_EQ(sweep.queued(), 2);
  EXPECT_EQ(sweep.metric(), "loss");
  EXPECT_FALSE(sweep.existed());
  ASSERT_THAT(sweep.children(), SizeIs(2));
  EXPECT_THAT(sweep.children(1).values(), ElementsAre("8"));
  EXPECT_EQ(fakes_.submitted[0].request.owner, "ann");
  EXPECT_EQ(fakes_.submitted[0].request.labels.at("lora.r"), "4");
}

TEST_F(SweepCallsTest, CreateChecksTheSubmissionAsSubmitDoes) {
  v1::Sweep sweep;
  v1::CreateSweepRequest request = Asked();
  request.mutable_submission()->set_owner("bob");
  EXPECT_TRUE(absl::IsPermissionDenied(Create(CallOf("ann"), &sweep, request)));
  request = Asked();
  request.mutable_submission()->clear_spec_json();
  EXPECT_THAT(std::string(Create(CallOf("ann"), &sweep, request).message()),
              HasSubstr("spec_json"));
  request = Asked();
  request.mutable_submission()->mutable_study()->mutable_smoke();
  EXPECT_THAT(std::string(Create(CallOf("ann"), &sweep, request).message()),
              HasSubstr("a sweep is of training jobs"));
  fakes_.refusal = absl::ResourceExhaustedError("too many");
  EXPECT_TRUE(absl::IsResourceExhausted(Create(CallOf("ann"), &sweep)));
}

TEST_F(SweepCallsTest, WhoMayReadASweep) {
  const std::string id = Made("ann");
  v1::Sweep sweep;
  EXPECT_TRUE(Get(id, CallOf("bob"), &sweep).ok());
  EXPECT_TRUE(Get(id, CallOf("ann", Role::kUser, true), &sweep).ok());
  EXPECT_TRUE(Get(id, CallOf("bob", Role::kAdmin, true), &sweep).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(
      Get(id, CallOf("bob", Role::kUser, true), &sweep)));
  EXPECT_TRUE(absl::IsNotFound(Get("NOTHING", CallOf("ann"), &sweep)));
  EXPECT_TRUE(absl::IsInvalidArgument(Get("", CallOf("ann"), &sweep)));
  EXPECT_TRUE(absl::IsInvalidArgument(
      Get(std::string(65, 'A'), CallOf("ann"), &sweep)));
}

TEST_F(SweepCallsTest, WhoMayCancelASweep) {
  const std::string id = Made("ann");
  v1::CancelSweepRequest request;
  request.set_id(id);
  v1::Sweep sweep;
  EXPECT_TRUE(absl::IsPermissionDenied(
      CancelSweep(fakes_.book(), CallOf("bob").rights, request, sweep)));
  request.set_id("NOTHING");
  EXPECT_TRUE(absl::IsNotFound(
      CancelSweep(fakes_.book(), CallOf("ann").rights, request, sweep)));
}

TEST_F(SweepCallsTest, ListGoesThroughPages) {
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(Made(i == 2 ? "bob" : "ann"));
  v1::ListSweepsRequest request;
  request.set_page_size(2);
  std::vector<std::string> seen;
  do {
    v1::ListSweepsResponse response;
    ASSERT_TRUE(
        ListSweeps(fakes_.book(), CallOf("ann").rights, request, response)
            .ok());
    for (const v1::Sweep& sweep : response.sweeps()) {
      seen.push_back(sweep.id());
      EXPECT_THAT(sweep.children(), SizeIs(0));
      EXPECT_EQ(sweep.total(), 2);
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(seen, ElementsAre(ids[4], ids[3], ids[2], ids[1], ids[0]));
  // Own ones alone, where jobs are private.
  v1::ListSweepsResponse own;
  request.Clear();
  ASSERT_TRUE(ListSweeps(fakes_.book(), CallOf("bob", Role::kUser, true).rights,
                         request, own)
                  .ok());
  ASSERT_THAT(own.sweeps(), SizeIs(1));
  EXPECT_EQ(own.sweeps(0).id(), ids[2]);
  request.add_ids(ids[1]);
  request.add_ids("NOTHING");
  v1::ListSweepsResponse named;
  ASSERT_TRUE(
      ListSweeps(fakes_.book(), CallOf("ann").rights, request, named).ok());
  EXPECT_THAT(named.sweeps(), SizeIs(1));
}

// Forty sweeps with 1.8 MB of values each were more than an answer may have,
// for everybody who listed sweeps.
TEST_F(SweepCallsTest, APageOfTheListEndsWhereItIsLarge) {
  v1::CreateSweepRequest large = Asked();
  large.set_strategy(v1::SWEEP_STRATEGY_RANDOM);
  large.set_count(1);
  v1::SweepParameter& models = *large.add_parameters();
  models.set_field("model");
  for (int i = 10; i < 70; ++i) {
    models.mutable_choices()->add_values(std::string(4000, 'm') +
                                         std::to_string(i));
  }
  v1::Sweep sweep;
  for (int i = 0; i < 7; ++i) {
    const absl::Status made = Create(CallOf("ann"), &sweep, large);
    ASSERT_TRUE(made.ok()) << made;
  }
  v1::ListSweepsRequest request;
  v1::ListSweepsResponse first, rest;
  ASSERT_TRUE(
      ListSweeps(fakes_.book(), CallOf("ann").rights, request, first).ok());
  EXPECT_EQ(first.sweeps_size(), 5) << "of 240 KB each, beyond 1 MiB";
  request.set_page_token(first.next_page_token());
  ASSERT_TRUE(
      ListSweeps(fakes_.book(), CallOf("ann").rights, request, rest).ok());
  EXPECT_EQ(rest.sweeps_size(), 2);
  EXPECT_EQ(rest.next_page_token(), "");
}

TEST_F(SweepCallsTest, ListIsBounded) {
  v1::ListSweepsResponse response;
  const auto status = [&](const v1::ListSweepsRequest& request) {
    return ListSweeps(fakes_.book(), CallOf("ann").rights, request, response);
  };
  v1::ListSweepsRequest request;
  request.set_page_size(100);
  EXPECT_TRUE(status(request).ok());
  request.set_page_size(101);
  EXPECT_TRUE(absl::IsInvalidArgument(status(request)));
  request.set_page_size(-1);
  EXPECT_TRUE(absl::IsInvalidArgument(status(request)));
  request.set_page_size(0);
  for (int i = 0; i < 100; ++i) request.add_ids("A");
  EXPECT_TRUE(status(request).ok());
  request.add_ids("A");
  EXPECT_TRUE(absl::IsInvalidArgument(status(request)));
  request.clear_ids();
  request.set_page_token(std::string(65, 'A'));
  EXPECT_TRUE(absl::IsInvalidArgument(status(request)));
}

}  // namespace
}  // namespace mpsd::rpc
