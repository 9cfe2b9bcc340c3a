// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/list_jobs.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/fake_manager.h"

namespace mpsd::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

class ListJobsTest : public testing::Test {
 protected:
  ListJobsTest() {
    for (int i = 10; i < 15; ++i) {
      manager_.Put(std::to_string(i), jobs::State::kRunning);
    }
  }
  std::vector<std::string> Ids(const v1::ListJobsRequest& request) {
    response_.Clear();
    absl::Status status = ListJobs(manager_, request, response_);
    EXPECT_TRUE(status.ok()) << status;
    std::vector<std::string> ids;
    for (const v1::Job& job : response_.jobs()) {
      ids.push_back(job.id());
      EXPECT_EQ(job.spec_json(), "");
      EXPECT_EQ(job.warnings_size(), 0);
    }
    return ids;
  }
  std::string Error(const v1::ListJobsRequest& request) {
    const absl::Status status = ListJobs(manager_, request, response_);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  FakeManager manager_;
  v1::ListJobsResponse response_;
};

TEST_F(ListJobsTest, PagesThroughEveryJobOnce) {
  v1::ListJobsRequest request;
  request.set_page_size(2);
  EXPECT_THAT(Ids(request), ElementsAre("14", "13"));
  request.set_page_token(response_.next_page_token());
  EXPECT_THAT(Ids(request), ElementsAre("12", "11"));
  request.set_page_token(response_.next_page_token());
  EXPECT_THAT(Ids(request), ElementsAre("10"));
  EXPECT_EQ(response_.next_page_token(), "");
}

TEST_F(ListJobsTest, AFullLastPageHasNoNext) {
  v1::ListJobsRequest request;
  request.set_page_size(5);
  EXPECT_EQ(Ids(request).size(), 5u);
  EXPECT_EQ(response_.next_page_token(), "");
}

TEST_F(ListJobsTest, ZeroIsFifty) {
  for (int i = 20; i < 80; ++i) {
    manager_.Put(std::to_string(i), jobs::State::kQueued);
  }
  EXPECT_EQ(Ids({}).size(), 50u);
  EXPECT_EQ(response_.jobs(0).queue_position(), 4);
}

// Rows as older versions stored them.
TEST_F(ListJobsTest, APageEndsPastItsBytes) {
  constexpr int kJobs = 75;
  for (int i = 0; i < kJobs; ++i) {
    jobs::Job job =
        FakeManager::MakeJob(std::to_string(100 + i), jobs::State::kFailed);
    job.message.assign(100'000, 'x');
    manager_.Put(job);
  }
  v1::ListJobsRequest request;
  request.set_page_size(500);
  std::vector<std::string> all;
  int pages = 0;
  do {
    const std::vector<std::string> page = Ids(request);
    ASSERT_FALSE(page.empty());
    EXPECT_LE(response_.ByteSizeLong(), limits::kPageBytes + 101'000);
    all.insert(all.end(), page.begin(), page.end());
    request.set_page_token(response_.next_page_token());
    ++pages;
  } while (!request.page_token().empty());
  EXPECT_EQ(all.size(), 5u + kJobs);
  EXPECT_TRUE(std::is_sorted(all.rbegin(), all.rend()));
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
  EXPECT_EQ(pages, 7) << "eleven jobs are the first past the bound";
}

TEST_F(ListJobsTest, TheFilterIsBounded) {
  v1::ListJobsRequest request;
  for (int i = 0; i < limits::kFilterLabels; ++i) {
    (*request.mutable_labels())[std::to_string(i)] = "v";
  }
  for (int i = 0; i < limits::kFilterStates; ++i) {
    request.add_states(v1::JOB_STATE_QUEUED);
  }
  request.set_owner(std::string(limits::kOwnerBytes, 'o'));
  Ids(request);
  EXPECT_TRUE(manager_.last_filter().summaries);
  v1::ListJobsRequest more = request;
  (*more.mutable_labels())["one more"] = "v";
  EXPECT_EQ(Error(more), "labels: has 17 entries, at most 16 are allowed");
  more = request;
  more.add_states(v1::JOB_STATE_QUEUED);
  EXPECT_EQ(Error(more), "states: has 6 entries, at most 5 are allowed");
  more = request;
  more.set_owner(std::string(limits::kOwnerBytes + 1, 'o'));
  EXPECT_THAT(Error(more), StartsWith("owner: has 257 bytes"));
  more = request;
  more.set_page_token(std::string(limits::kPageTokenBytes + 1, 't'));
  EXPECT_THAT(Error(more), StartsWith("page_token: has 129 bytes"));
}

TEST_F(ListJobsTest, TheFilterReachesTheQueue) {
  v1::ListJobsRequest request;
  request.add_states(v1::JOB_STATE_FAILED);
  request.add_states(v1::JOB_STATE_QUEUED);
  request.add_states(v1::JOB_STATE_FAILED);
  request.set_owner("ana");
  (*request.mutable_labels())["team"] = "nlp";
  Ids(request);
  const jobs::ListFilter filter = manager_.last_filter();
  EXPECT_THAT(filter.states,
              ElementsAre(jobs::State::kQueued, jobs::State::kFailed));
  EXPECT_EQ(filter.owner, "ana");
  EXPECT_EQ(filter.labels.at("team"), "nlp");
}

TEST_F(ListJobsTest, BadFieldsAreNamed) {
  v1::ListJobsRequest request;
  request.set_page_size(-1);
  EXPECT_THAT(Error(request), StartsWith("page_size:"));
  request.set_page_size(501);
  EXPECT_THAT(Error(request), StartsWith("page_size:"));
  request.set_page_size(0);
  request.add_states(v1::JOB_STATE_QUEUED);
  request.add_states(v1::JOB_STATE_UNSPECIFIED);
  EXPECT_THAT(Error(request), StartsWith("states[1]:"));
}

TEST_F(ListJobsTest, TokensOfOthersAreRefused) {
  v1::ListJobsRequest request;
  request.set_page_size(2);
  Ids(request);
  const std::string token = response_.next_page_token();
  for (const std::string& bad :
       {std::string("13"), std::string("."), std::string("x.y"), token + "0",
        "0" + token}) {
    request.set_page_token(bad);
    EXPECT_THAT(Error(request), StartsWith("page_token:")) << bad;
  }
  request.set_page_token(token);
  request.set_owner("ana");
  EXPECT_THAT(Error(request), StartsWith("page_token:"));
  request.clear_owner();
  request.set_page_size(3);  // may change from page to page
  EXPECT_THAT(Ids(request), ElementsAre("12", "11", "10"));
}

}  // namespace
}  // namespace mpsd::rpc
