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
    absl::Status status =
        ListJobs(manager_, nullptr, rights_, request, response_);
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
    const absl::Status status =
        ListJobs(manager_, nullptr, rights_, request, response_);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  static access::Rights Ada(bool private_jobs) {
    access::Caller caller;
    caller.user = "ada";
    caller.role = access::Role::kUser;
    return access::Rights(caller, private_jobs);
  }

  FakeManager manager_;
  access::Rights rights_ = Ada(/*private_jobs=*/false);
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

TEST_F(ListJobsTest, ShowsThePublicPartOfPrivateJobs) {
  jobs::Job job = FakeManager::MakeJob("15", jobs::State::kQueued);
  job.owner = "ada";
  job.name = "mine";
  manager_.Put(job);
  job = FakeManager::MakeJob("16", jobs::State::kQueued);
  job.owner = "bob";
  job.name = "his";
  job.labels["team"] = "his";
  manager_.Put(job);
  rights_ = Ada(/*private_jobs=*/true);
  v1::ListJobsRequest request;
  request.set_page_size(2);
  EXPECT_THAT(Ids(request), ElementsAre("16", "15"));
  EXPECT_EQ(response_.jobs(0).owner(), "bob");
  EXPECT_EQ(response_.jobs(0).name(), "");
  EXPECT_EQ(response_.jobs(0).labels_size(), 0);
  EXPECT_EQ(response_.jobs(0).queue_position(), 4);
  EXPECT_EQ(response_.jobs(1).name(), "mine");
}

// Else "is there a job with team=nlp?" would be answered for private jobs.
TEST_F(ListJobsTest, LabelsFindOwnJobsAloneWhereJobsArePrivate) {
  rights_ = Ada(/*private_jobs=*/true);
  v1::ListJobsRequest request;
  Ids(request);
  EXPECT_EQ(manager_.last_filter().owner, "");
  (*request.mutable_labels())["team"] = "nlp";
  request.set_page_size(2);
  Ids(request);
  EXPECT_EQ(manager_.last_filter().owner, "ada");
  request.set_page_token(response_.next_page_token());
  EXPECT_THAT(Ids(request), ElementsAre("12", "11"));
  request.clear_page_token();
  request.set_owner("bob");
  EXPECT_THAT(Ids(request), ElementsAre());
  request.clear_owner();
  access::Caller page;
  page.way = access::Way::kPage;
  rights_ = access::Rights(page, true);
  EXPECT_THAT(Ids(request), ElementsAre());
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
  EXPECT_THAT(Error(more), StartsWith("page_token: has 1025 bytes"));
  more = request;
  more.set_text(std::string(limits::kFilterTextBytes, 't'));
  more.set_model(std::string(limits::kPathBytes, 'm'));
  Ids(more);
  more.mutable_text()->push_back('t');
  EXPECT_THAT(Error(more), StartsWith("text: has 257 bytes"));
  more.set_text("a\nb");
  EXPECT_THAT(Error(more), StartsWith("text: 'a\\nb' has a line break"));
  more.clear_text();
  more.mutable_model()->push_back('m');
  EXPECT_THAT(Error(more), StartsWith("model: has 4097 bytes"));
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
  EXPECT_EQ(filter.order, jobs::ListOrder::kCreated);
  EXPECT_FALSE(filter.ascending || filter.pinned || filter.held);
  request.set_text("moods");
  request.set_model("org/tiny");
  request.mutable_create_time_from()->set_seconds(1);
  request.mutable_create_time_to()->set_nanos(2000);
  request.mutable_end_time_from()->set_seconds(3);
  request.mutable_end_time_to()->set_seconds(4);
  request.set_pinned(false);
  request.set_held(true);
  request.set_order(v1::JOB_ORDER_EVAL_LOSS);
  request.set_ascending(true);
  Ids(request);
  const jobs::ListFilter whole = manager_.last_filter();
  EXPECT_EQ(whole.text, "moods");
  EXPECT_FALSE(whole.text_of_owner);
  EXPECT_EQ(whole.model, "org/tiny");
  EXPECT_EQ(whole.created_from, absl::FromUnixSeconds(1));
  EXPECT_EQ(whole.created_to, absl::FromUnixMicros(2));
  EXPECT_EQ(whole.ended_from, absl::FromUnixSeconds(3));
  EXPECT_EQ(whole.ended_to, absl::FromUnixSeconds(4));
  EXPECT_EQ(whole.pinned, false);
  EXPECT_EQ(whole.held, true);
  EXPECT_EQ(whole.order, jobs::ListOrder::kEvalLoss);
  EXPECT_TRUE(whole.ascending);
}

TEST_F(ListJobsTest, CountsWhereAsked) {
  v1::ListJobsRequest request;
  request.set_page_size(2);
  Ids(request);
  EXPECT_FALSE(response_.has_total());
  request.set_count(true);
  Ids(request);
  EXPECT_EQ(response_.total(), 5);
}

// The order of private losses tells of the losses, as a page token does.
TEST_F(ListJobsTest, WhatIsPrivateFindsAndSortsOwnJobsAlone) {
  rights_ = Ada(/*private_jobs=*/true);
  std::vector<v1::ListJobsRequest> requests(6);
  requests[0].set_model("m");
  requests[1].set_pinned(true);
  requests[2].set_held(false);
  requests[3].set_order(v1::JOB_ORDER_NAME);
  requests[4].set_order(v1::JOB_ORDER_EVAL_LOSS);
  requests[5].set_order(v1::JOB_ORDER_STORED_BYTES);
  for (v1::ListJobsRequest& request : requests) {
    request.set_count(true);
    EXPECT_EQ(Ids(request).size(), 5u);
    EXPECT_EQ(manager_.last_filter().owner, "ada");
    request.set_owner("bob");
    EXPECT_THAT(Ids(request), ElementsAre());
    EXPECT_EQ(response_.total(), 0);
  }
  v1::ListJobsRequest request;
  request.set_text("bob");
  request.set_order(v1::JOB_ORDER_DEVICE_SECONDS);
  Ids(request);
  EXPECT_EQ(manager_.last_filter().owner, "");
  EXPECT_EQ(manager_.last_filter().text_of_owner, "ada");
}

TEST_F(ListJobsTest, TokensCarryEachValue) {
  for (int i = 10; i < 15; ++i) {
    jobs::Job job =
        FakeManager::MakeJob(std::to_string(i), jobs::State::kFailed);
    job.name = std::string(limits::kNameBytes, '.');
    job.owner = std::string(limits::kOwnerBytes, '\xC3');
    job.eval_loss_after = -1.0 / 3 * i;
    job.priority = -i;
    if (i > 12) job.end_time = absl::FromUnixMicros(-i);
    manager_.Put(job);
  }
  for (int order = v1::JobOrder_MIN; order <= v1::JobOrder_MAX; ++order) {
    v1::ListJobsRequest request;
    request.set_order(static_cast<v1::JobOrder>(order));
    request.set_page_size(1);
    for (const char* id : {"14", "13", "12", "11", "10"}) {
      EXPECT_THAT(Ids(request), ElementsAre(id)) << order;
      EXPECT_LE(response_.next_page_token().size(), limits::kPageTokenBytes);
      if (request.page_token().empty()) {
        EXPECT_FALSE(manager_.last_filter().after);
      } else {
        const jobs::Job before =
            *manager_.Get(std::to_string(std::stoi(id) + 1));
        EXPECT_EQ(manager_.last_filter().after,
                  jobs::PlaceOf(before, manager_.last_filter().order));
      }
      request.set_page_token(response_.next_page_token());
    }
    EXPECT_EQ(request.page_token(), "");
  }
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
  request.clear_states();
  request.set_order(static_cast<v1::JobOrder>(v1::JobOrder_MAX + 1));
  EXPECT_EQ(Error(request), "order: 10 is no order of jobs");
  request.clear_order();
  request.mutable_end_time_to()->set_nanos(1'000'000'000);
  EXPECT_EQ(Error(request), "end_time_to: is no time of the years 1 to 9999");
  request.clear_end_time_to();
  request.mutable_create_time_from()->set_seconds(int64_t{1} << 62);
  EXPECT_THAT(Error(request), StartsWith("create_time_from: is no time"));
}

TEST_F(ListJobsTest, TokensOfOthersAreRefused) {
  v1::ListJobsRequest request;
  request.set_page_size(2);
  Ids(request);
  const std::string token = response_.next_page_token();
  for (const std::string& bad :
       {std::string("13"), std::string("."), std::string("x.y"), token + "0",
        "0" + token, token.substr(0, token.size() - 1), token + "i1",
        std::string(".."), token + "d0x1p0", token + "t!"}) {
    request.set_page_token(bad);
    EXPECT_THAT(Error(request), StartsWith("page_token:")) << bad;
  }
  request.set_page_token(token);
  request.set_owner("ana");
  EXPECT_THAT(Error(request), StartsWith("page_token:"));
  request.clear_owner();
  for (const char* field : {"text", "model"}) {
    v1::ListJobsRequest other = request;
    other.GetReflection()->SetString(
        &other, other.GetDescriptor()->FindFieldByName(field), "x");
    EXPECT_THAT(Error(other), StartsWith("page_token:")) << field;
  }
  for (const char* field : {"ascending", "pinned", "held"}) {
    v1::ListJobsRequest other = request;
    other.GetReflection()->SetBool(
        &other, other.GetDescriptor()->FindFieldByName(field), field[0] == 'a');
    EXPECT_THAT(Error(other), StartsWith("page_token:")) << field;
  }
  for (const char* field :
       {"create_time_from", "create_time_to", "end_time_from", "end_time_to"}) {
    v1::ListJobsRequest other = request;
    other.GetReflection()->MutableMessage(
        &other, other.GetDescriptor()->FindFieldByName(field));
    EXPECT_THAT(Error(other), StartsWith("page_token:")) << field;
  }
  v1::ListJobsRequest other = request;
  other.set_order(v1::JOB_ORDER_STATE);
  EXPECT_THAT(Error(other), StartsWith("page_token:"));
  request.set_count(true);
  request.set_page_size(3);  // may change from page to page
  EXPECT_THAT(Ids(request), ElementsAre("12", "11", "10"));
}

}  // namespace
}  // namespace mpsd::rpc
