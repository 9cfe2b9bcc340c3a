// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/job_calls.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/fake_audit.h"
#include "tests/server/rpc/fake_callers.h"
#include "tests/server/rpc/fake_manager.h"

namespace mpsd::rpc {
namespace {

using access::Role;
using jobs::State;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Id(int number) {
  std::string digits = std::to_string(number);
  return std::string("01KAH000000000000000000000")
             .substr(0, 26 - digits.size()) +
         digits;
}

// As the store lists them: oldest first, by state and owner.
class Queue final : public FakeManager {
 public:
  absl::StatusOr<std::vector<jobs::Job>> List(
      const jobs::ListFilter& filter) override {
    EXPECT_TRUE(filter.ascending);
    ++lists;
    std::vector<jobs::Job> listed;
    for (const std::string& id : ids) {
      const absl::StatusOr<jobs::Job> job = Get(id);
      if (!job.ok() || (filter.after && id <= filter.after->id)) continue;
      if (!filter.owner.empty() && job->owner != filter.owner) continue;
      if (std::count(filter.states.begin(), filter.states.end(), job->state) ==
          0) {
        continue;
      }
      if (static_cast<int>(listed.size()) < filter.limit) {
        listed.push_back(*job);
      }
    }
    return listed;
  }
  void Add(int number, const std::string& owner, State state,
           int64_t bytes = 10, bool pinned = false) {
    jobs::Job job = MakeJob(Id(number), state, owner);
    job.stored_bytes = bytes;
    job.pinned = pinned;
    Put(job);
    ids.push_back(job.id);
  }

  std::vector<std::string> ids;
  int lists = 0;
};

class DeleteJobsTest : public testing::Test {
 protected:
  absl::Status Run(const v1::DeleteJobsRequest& request,
                   Role role = Role::kUser, jobs::Wanted wanted = {}) {
    response_.Clear();
    Call call = CallOf("ada", false, role);
    call.wanted = std::move(wanted);
    const Gate gate({{}, false, &audit_}, queue_);
    return DeleteJobs(gate, queue_, queue_, request, call, response_);
  }
  std::vector<std::string> Deleted() const {
    return {response_.deleted().begin(), response_.deleted().end()};
  }
  std::string KeptWhy(const std::string& id) const {
    for (const auto& kept : response_.kept()) {
      if (kept.id() == id) return kept.why();
    }
    return "not kept";
  }
  static v1::DeleteJobsRequest AllEnded() {
    v1::DeleteJobsRequest request;
    for (v1::JobState state : {v1::JOB_STATE_SUCCEEDED, v1::JOB_STATE_FAILED,
                               v1::JOB_STATE_CANCELLED}) {
      request.mutable_filter()->add_states(state);
    }
    return request;
  }

  Queue queue_;
  FakeAudit audit_;
  v1::DeleteJobsResponse response_;
};

TEST_F(DeleteJobsTest, OneThatCannotGoKeepsNoOther) {
  queue_.Add(1, "ada", State::kFailed);
  queue_.Add(2, "ada", State::kRunning);
  queue_.Add(3, "bob", State::kFailed);
  queue_.Add(4, "ada", State::kSucceeded, 10, /*pinned=*/true);
  queue_.Add(5, "ada", State::kSucceeded);
  v1::DeleteJobsRequest request;
  for (int i = 1; i <= 6; ++i) request.add_ids(Id(i));
  request.add_ids(Id(1));
  ASSERT_TRUE(Run(request).ok());
  EXPECT_THAT(Deleted(), ElementsAre(Id(1), Id(5)));
  EXPECT_EQ(response_.matched(), 2);
  EXPECT_EQ(response_.freed_bytes(), 84);
  EXPECT_THAT(KeptWhy(Id(2)), HasSubstr("has not ended"));
  EXPECT_THAT(KeptWhy(Id(3)), HasSubstr("needs the job's owner"));
  EXPECT_THAT(KeptWhy(Id(4)), HasSubstr("pinned"));
  EXPECT_THAT(KeptWhy(Id(6)), HasSubstr("no job"));
  EXPECT_EQ(response_.kept_size(), 5);
  EXPECT_FALSE(response_.more());
}

// What became of each job is in the audit, as if it had been deleted alone.
TEST_F(DeleteJobsTest, EachDeletionIsNoted) {
  queue_.Add(1, "ada", State::kFailed);
  queue_.Add(2, "bob", State::kFailed);
  queue_.Add(3, "ada", State::kRunning);
  v1::DeleteJobsRequest request;
  for (int i = 1; i <= 3; ++i) request.add_ids(Id(i));
  ASSERT_TRUE(Run(request).ok());
  const std::vector<FakeAudit::Entry> noted = audit_.Take();
  ASSERT_EQ(noted.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(noted[i].request.method, "JobService.Delete");
    EXPECT_EQ(noted[i].request.job_id, Id(i + 1));
    EXPECT_EQ(noted[i].request.detail, "by DeleteJobs");
    EXPECT_EQ(noted[i].refused, i == 1);
    EXPECT_EQ(noted[i].result.ok(), i == 0);
  }
  // What makes room is done though it cannot be noted.
  queue_.Add(4, "ada", State::kFailed);
  audit_.FailBegin(absl::ResourceExhaustedError("disk full"));
  request.Clear();
  request.add_ids(Id(4));
  ASSERT_TRUE(Run(request).ok());
  EXPECT_THAT(Deleted(), ElementsAre(Id(4)));
}

TEST_F(DeleteJobsTest, AFilterFindsTheCallersOwnOldestFirst) {
  for (int i = 1; i <= 6; ++i) {
    queue_.Add(i, i % 2 == 0 ? "ada" : "bob", State::kFailed);
  }
  queue_.Add(7, "ada", State::kQueued);
  ASSERT_TRUE(Run(AllEnded()).ok());
  EXPECT_THAT(Deleted(), ElementsAre(Id(2), Id(4), Id(6)));
  EXPECT_THAT(response_.kept(), IsEmpty());
  // Another's are not found, and are no error.
  v1::DeleteJobsRequest others = AllEnded();
  others.mutable_filter()->set_owner("bob");
  ASSERT_TRUE(Run(others).ok());
  EXPECT_THAT(Deleted(), IsEmpty());
  ASSERT_TRUE(Run(others, Role::kAdmin).ok());
  EXPECT_THAT(Deleted(), ElementsAre(Id(1), Id(3), Id(5)));
}

TEST_F(DeleteJobsTest, WhoNamesNoStateMeansThoseThatHaveEnded) {
  queue_.Add(1, "ada", State::kRunning);
  queue_.Add(2, "ada", State::kFailed);
  v1::DeleteJobsRequest request;
  request.mutable_filter()->set_owner("ada");
  ASSERT_TRUE(Run(request).ok());
  EXPECT_THAT(Deleted(), ElementsAre(Id(2)));
  EXPECT_THAT(response_.kept(), IsEmpty());
}

// A client that calls again while there are more comes to an end, whatever
// cannot go.
TEST_F(DeleteJobsTest, CallsComeToAnEndThoughSomeStay) {
  for (int i = 1; i <= 1200; ++i) {
    queue_.Add(i, "ada", State::kFailed, 1, /*pinned=*/i <= 600);
  }
  v1::DeleteJobsRequest request = AllEnded();
  request.mutable_filter()->set_page_size(250);
  int calls = 0;
  int64_t deleted = 0;
  do {
    ASSERT_TRUE(Run(request).ok());
    deleted += response_.matched();
    ASSERT_LE(response_.matched(), 250);
    ASSERT_EQ(response_.kept_size(), 600);
  } while (response_.more() && ++calls < 10);
  EXPECT_EQ(deleted, 600);
  EXPECT_EQ(calls, 2);
}

TEST_F(DeleteJobsTest, ADryRunCountsAllAndRemovesNothing) {
  for (int i = 1; i <= 1500; ++i) {
    queue_.Add(i, "ada", State::kFailed, 3, /*pinned=*/i == 7);
  }
  v1::DeleteJobsRequest request = AllEnded();
  request.set_dry_run(true);
  ASSERT_TRUE(Run(request).ok());
  EXPECT_EQ(response_.matched(), 1499);
  EXPECT_EQ(response_.freed_bytes(), 1499 * 3);
  EXPECT_EQ(response_.deleted_size(), static_cast<int>(limits::kDeletedJobs));
  EXPECT_THAT(KeptWhy(Id(7)), HasSubstr("pinned"));
  EXPECT_FALSE(response_.more());
  EXPECT_TRUE(queue_.Get(Id(1)).ok());
  EXPECT_THAT(audit_.Take(), IsEmpty());
  request.Clear();
  request.set_dry_run(true);
  request.add_ids(Id(1));
  request.add_ids(Id(7));
  ASSERT_TRUE(Run(request).ok());
  EXPECT_EQ(response_.freed_bytes(), 3);
  EXPECT_EQ(response_.kept_size(), 1);
  EXPECT_TRUE(queue_.Get(Id(1)).ok());
}

TEST_F(DeleteJobsTest, WhoIsGoneStopsIt) {
  for (int i = 1; i <= 9; ++i) queue_.Add(i, "ada", State::kFailed);
  int asked = 0;
  ASSERT_TRUE(Run(AllEnded(), Role::kUser, [&] {
                return ++asked > 3 ? absl::CancelledError("")
                                   : absl::OkStatus();
              }).ok());
  EXPECT_EQ(response_.matched(), 3);
}

TEST_F(DeleteJobsTest, WhatNamesNothingOrTooMuchIsRefused) {
  queue_.Add(1, "ada", State::kFailed);
  const auto refused = [&](const v1::DeleteJobsRequest& request,
                           const char* words) {
    const absl::Status status = Run(request, Role::kAdmin);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << words;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  };
  v1::DeleteJobsRequest request;
  for (const auto& [text, words] :
       {std::pair{"", "ids: name jobs either here or by a filter"},
        std::pair{"filter {}", "filter: names nothing"},
        std::pair{"filter { page_size: 5 }", "filter: names nothing"},
        std::pair{"filter { states: JOB_STATE_FAILED } ids: 'a'",
                  "either here"},
        std::pair{"filter { states: JOB_STATE_FAILED page_size: 501 }",
                  "filter.page_size: must be 0 to 500, is 501"},
        std::pair{"filter { states: JOB_STATE_FAILED order: JOB_ORDER_NAME }",
                  "filter: page_token, order"},
        std::pair{"filter { states: JOB_STATE_FAILED page_token: 'x' }",
                  "filter: page_token"},
        std::pair{"ids: ''", "ids[0]: must not be empty"}}) {
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request));
    refused(request, words);
  }
  request.Clear();
  for (size_t i = 0; i < limits::kDeletedJobs; ++i) request.add_ids(Id(9));
  EXPECT_TRUE(Run(request).ok());
  request.add_ids(Id(9));
  refused(request, "ids: has 1001 entries");
  EXPECT_TRUE(queue_.Get(Id(1)).ok());
}

}  // namespace
}  // namespace mpsd::rpc
