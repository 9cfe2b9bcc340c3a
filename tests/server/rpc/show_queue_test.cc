// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/show_queue.h"

#include <string>

#include "core/base/limits.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/fake_manager.h"

namespace mpsd::rpc {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

v1::QueueResponse Ask(FakeManager& manager, const std::string& user = "ann",
                      bool private_jobs = false) {
  access::Caller caller;
  caller.user = user;
  v1::QueueResponse response;
  EXPECT_TRUE(ShowQueue(manager, {caller, private_jobs}, {}, response).ok());
  return response;
}

TEST(ShowQueue, AnEmptyQueueHasItsHalfLife) {
  FakeManager manager;
  jobs::QueueListing listing;
  listing.half_life = absl::Hours(24);
  manager.SetListing(listing);
  const v1::QueueResponse response = Ask(manager);
  EXPECT_EQ(response.entries_size(), 0);
  EXPECT_EQ(response.more(), 0);
  EXPECT_EQ(response.half_life_seconds(), 86400);
  EXPECT_EQ(manager.last_queue_limit(),
            static_cast<size_t>(limits::kQueueEntries));
}

TEST(ShowQueue, TellsEachPlaceAndWhoUsedHowMuch) {
  FakeManager manager;
  jobs::QueueListing listing;
  jobs::QueuePlace place;
  place.id = "01A";
  place.name = "moods\xff";
  place.owner = "ann";
  place.priority = -3;
  place.state = jobs::State::kQueued;
  place.since = kNow;
  place.why = "priority -3";
  place.hold = "its model is away";
  place.not_before = kNow + absl::Seconds(30);
  listing.places = {place, jobs::QueuePlace()};
  listing.places[1].state = jobs::State::kRunning;
  listing.more = 12;
  listing.usage = {{"ann", 7200.5, kNow}, {"bob", 60, kNow}};
  manager.SetListing(listing);

  const v1::QueueResponse response = Ask(manager);
  ASSERT_EQ(response.entries_size(), 2);
  const v1::QueueResponse::Entry& entry = response.entries(0);
  EXPECT_EQ(entry.id(), "01A");
  EXPECT_EQ(entry.name(), "moods\xef\xbf\xbd");
  EXPECT_EQ(entry.owner(), "ann");
  EXPECT_EQ(entry.priority(), -3);
  EXPECT_EQ(entry.state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(entry.queue_time().seconds(), 1'700'000'000);
  EXPECT_EQ(entry.why(), "priority -3");
  EXPECT_EQ(entry.hold(), "its model is away");
  EXPECT_EQ(entry.not_before().seconds(), 1'700'000'030);
  EXPECT_EQ(response.entries(1).state(), v1::JOB_STATE_RUNNING);
  EXPECT_FALSE(response.entries(1).has_not_before());
  EXPECT_EQ(response.more(), 12);
  ASSERT_EQ(response.usage_size(), 2);
  EXPECT_EQ(response.usage(0).owner(), "ann");
  EXPECT_EQ(response.usage(0).seconds(), 7200.5);
}

TEST(ShowQueue, OfPrivateJobsOthersSeeThePlaceAlone) {
  FakeManager manager;
  jobs::QueuePlace place;
  place.id = "01A";
  place.name = "secret plan";
  place.owner = "ann";
  place.why = "priority 0";
  place.hold = "ann.s model is away";
  jobs::QueueListing listing;
  listing.places = {place};
  manager.SetListing(listing);
  EXPECT_EQ(Ask(manager, "ann", true).entries(0).name(), "secret plan");
  EXPECT_EQ(Ask(manager, "bob", false).entries(0).name(), "secret plan");
  const v1::QueueResponse::Entry entry = Ask(manager, "bob", true).entries(0);
  EXPECT_EQ(entry.name(), "");
  EXPECT_EQ(entry.hold(), "");
  EXPECT_EQ(entry.id(), "01A");
  EXPECT_EQ(entry.owner(), "ann");
  EXPECT_EQ(entry.why(), "priority 0");
}

}  // namespace
}  // namespace mpsd::rpc
