// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/list_calls.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "server/rpc/job_calls.h"
#include "tests/server/rpc/fake_callers.h"
#include "tests/server/rpc/fake_manager.h"
#include "tests/server/rpc/proto_text.h"
#include "tests/server/rpc/some_records.h"

namespace mpsd::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
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

  FakeManager manager_;
  access::Rights rights_ = RightsOf("ada");
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
  EXPECT_FALSE(response_.has_total());
  request.clear_page_token();
  request.set_page_size(5);
  request.set_count(true);
  EXPECT_EQ(Ids(request).size(), 5u);
  EXPECT_EQ(response_.next_page_token(), "");
  EXPECT_EQ(response_.total(), 5);
  for (int i = 20; i < 80; ++i) {
    manager_.Put(std::to_string(i), jobs::State::kQueued);
  }
  EXPECT_EQ(Ids({}).size(), 50u);
  EXPECT_EQ(response_.jobs(0).queue_position(), 4);
}

TEST_F(ListJobsTest, ShowsThePublicPartOfPrivateJobs) {
  jobs::Job job = FakeManager::MakeJob("15", jobs::State::kQueued, "ada");
  job.name = "mine";
  manager_.Put(job);
  job = FakeManager::MakeJob("16", jobs::State::kQueued, "bob");
  job.name = "his";
  job.labels["team"] = "his";
  manager_.Put(job);
  rights_ = RightsOf("ada", /*private_jobs=*/true);
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
  rights_ = RightsOf("ada", /*private_jobs=*/true);
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

// The order of private losses tells of the losses, as a page token does.
TEST_F(ListJobsTest, WhatIsPrivateFindsAndSortsOwnJobsAlone) {
  rights_ = RightsOf("ada", /*private_jobs=*/true);
  for (const char* by :
       {"model: 'm'", "pinned: true", "held: false", "order: JOB_ORDER_NAME",
        "order: JOB_ORDER_EVAL_LOSS", "order: JOB_ORDER_STORED_BYTES"}) {
    v1::ListJobsRequest request;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(by, &request));
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
  EXPECT_EQ(Error(request), "order: 10 is not a job order");
  request.clear_order();
  request.mutable_end_time_to()->set_nanos(1'000'000'000);
  EXPECT_EQ(Error(request),
            "end_time_to: is not a time in the years 1 to 9999");
  request.clear_end_time_to();
  request.mutable_create_time_from()->set_seconds(int64_t{1} << 62);
  EXPECT_THAT(Error(request), StartsWith("create_time_from: is not a time"));
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
  for (const char* other :
       {"text: 'x'", "model: 'x'", "ascending: true", "pinned: false",
        "held: false", "create_time_from {}", "create_time_to {}",
        "end_time_from {}", "end_time_to {}", "order: JOB_ORDER_STATE"}) {
    v1::ListJobsRequest changed = request;
    ASSERT_TRUE(google::protobuf::TextFormat::MergeFromString(other, &changed));
    EXPECT_THAT(Error(changed), StartsWith("page_token:")) << other;
  }
  request.set_count(true);
  request.set_page_size(3);  // may change from page to page
  EXPECT_THAT(Ids(request), ElementsAre("12", "11", "10"));
}

class FindJobsTest : public testing::Test {
 protected:
  absl::Status Find(const std::string& part, bool private_jobs = false) {
    v1::FindJobsRequest request;
    request.set_id_part(part);
    response_.Clear();
    return FindJobs(manager_, nullptr, RightsOf("ada", private_jobs), request,
                    response_);
  }
  FakeManager manager_;
  v1::FindJobsResponse response_;
};

TEST_F(FindJobsTest, AnswersWithIdNameAndState) {
  for (const auto& [id, owner] :
       {std::pair{"01KAH0AAA0", ""}, std::pair{"01KAH0AAA1", "ada"},
        std::pair{"01KAH0AAA2", "bob"}}) {
    jobs::Job job = FakeManager::MakeJob(id, jobs::State::kRunning, owner);
    job.name = "moods";
    manager_.Put(job);
  }
  ASSERT_TRUE(Find("0aaa0").ok());
  EXPECT_THAT(
      response_, EqualsProto(R"pb(
        jobs { id: "01KAH0AAA0" name: "moods" state: JOB_STATE_RUNNING })pb"));
  ASSERT_TRUE(Find("01KAH0AAA", /*private_jobs=*/true).ok());
  ASSERT_EQ(response_.jobs_size(), 3);
  EXPECT_EQ(response_.jobs(0).name(), "");  // bob's
  EXPECT_EQ(response_.jobs(1).name(), "moods");
  EXPECT_EQ(response_.jobs(2).name(), "");  // nobody's
}

TEST_F(FindJobsTest, SaysWhereThereAreMore) {
  for (int i = 10; i < 30; ++i) {
    manager_.Put("01KAH" + std::to_string(i), jobs::State::kQueued);
  }
  ASSERT_TRUE(Find("01KAH").ok());
  EXPECT_EQ(response_.jobs_size(), 20);
  EXPECT_FALSE(response_.more());
  manager_.Put("01KAH30", jobs::State::kQueued);
  ASSERT_TRUE(Find("01KAH").ok());
  EXPECT_EQ(response_.jobs_size(), 20);
  EXPECT_EQ(response_.jobs(0).id(), "01KAH30");
  EXPECT_TRUE(response_.more());
}

TEST_F(FindJobsTest, RefusesWhatIsNoPartOfAnId) {
  for (const std::string& part :
       {std::string(), std::string("01K"), std::string(27, '0'),
        std::string("01K%"), std::string("../01KAH"),
        std::string("01KA\0H", 6)}) {
    const absl::Status status = Find(part);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << part;
    EXPECT_EQ(status.message().substr(0, 9), "id_part: ") << status;
  }
}

constexpr char kAda[] = "01J0000000000000000000ADA1";
constexpr char kBob[] = "01J0000000000000000000B0B1";

class RecordCallsTest : public testing::Test {
 protected:
  RecordCallsTest() {
    some_.Put(kAda, "ada");
    some_.Put(kBob, "bob");
  }
  std::vector<std::string> List(const access::Rights& rights,
                                v1::ListJobsRequest request = {}) {
    request.set_past(true);
    list_.Clear();
    const absl::Status status =
        ListJobs(manager_, &some_.records, rights, request, list_);
    EXPECT_TRUE(status.ok()) << status;
    std::vector<std::string> ids;
    for (const v1::Job& job : list_.jobs()) ids.push_back(job.id());
    return ids;
  }
  absl::Status Get(const access::Rights& rights, const std::string& id) {
    response_.Clear();
    return GetRecord(some_.records, manager_, rights,
                     ById<v1::GetRecordRequest>(id), response_);
  }
  absl::Status Note(const access::Rights& rights, const std::string& id,
                    const std::string& text) {
    auto request = ById<v1::AddNoteRequest>(id);
    request.set_text(text);
    response_.Clear();
    return AddNote(some_.records, manager_, rights, request, response_);
  }
  absl::Status Tag(const access::Rights& rights, const std::string& id,
                   const std::vector<std::string>& add,
                   const std::vector<std::string>& remove = {}) {
    auto request = ById<v1::TagRequest>(id);
    request.mutable_add()->Add(add.begin(), add.end());
    request.mutable_remove()->Add(remove.begin(), remove.end());
    response_.Clear();
    return TagJob(some_.records, manager_, rights, request, response_);
  }

  FakeManager manager_;
  SomeRecords some_;
  v1::GetRecordResponse response_;
  v1::ListJobsResponse list_;
};

TEST_F(RecordCallsTest, DeletedJobsAreListedInPages) {
  for (int i = 0; i < 5; ++i) {
    some_.Put(absl::StrCat("01J0000000000000000000000", i), "ada");
  }
  v1::ListJobsRequest request;
  request.set_page_size(3);
  request.set_order(v1::JOB_ORDER_OWNER);
  std::vector<int> pages;
  std::string first;
  do {
    pages.push_back(static_cast<int>(List(RightsOf("ada"), request).size()));
    request.set_page_token(list_.next_page_token());
    if (first.empty()) first = list_.next_page_token();
  } while (!request.page_token().empty());
  EXPECT_THAT(pages, ElementsAre(3, 3, 1));
  // A token is of its filter and of deleted jobs.
  request.set_page_token(first);
  v1::ListJobsResponse response;
  EXPECT_TRUE(absl::IsInvalidArgument(
      ListJobs(manager_, &some_.records, RightsOf("ada"), request, response)));
  request.clear_page_token();
  request.add_tags("none");
  request.set_count(true);
  EXPECT_THAT(List(RightsOf("ada"), request), IsEmpty());
  EXPECT_EQ(list_.total(), 0);
}

TEST_F(RecordCallsTest, AListShowsADeletedJob) {
  ASSERT_TRUE(Tag(RightsOf("bob"), kBob, {"b", "a"}).ok());
  v1::ListJobsRequest request;
  request.add_tags("a");
  ASSERT_THAT(List(RightsOf("ada"), request), ElementsAre(kBob));
  EXPECT_TRUE(list_.jobs(0).past());
  EXPECT_EQ(list_.jobs(0).owner(), "bob");
  EXPECT_EQ(list_.jobs(0).state(), v1::JOB_STATE_FAILED);
  EXPECT_THAT(list_.jobs(0).tags(), ElementsAre("a", "b"));
}

TEST_F(RecordCallsTest, OthersRecordsAreSeenUnlessJobsArePrivate) {
  EXPECT_THAT(List(RightsOf("ada")), ElementsAre(kBob, kAda));
  EXPECT_TRUE(Get(RightsOf("ada"), kBob).ok());
  const access::Rights ada = RightsOf("ada", true), nobody = RightsOf("", true),
                       root = RightsOf("root", true, access::Role::kAdmin);
  EXPECT_THAT(List(ada), ElementsAre(kAda));
  EXPECT_THAT(List(nobody), IsEmpty());
  EXPECT_THAT(List(root), SizeIs(2));
  v1::ListJobsRequest of_bob;
  of_bob.set_owner("bob");
  EXPECT_THAT(List(ada, of_bob), IsEmpty());
  EXPECT_TRUE(Get(ada, kAda).ok());
  EXPECT_TRUE(absl::IsNotFound(Get(ada, kBob)));
  EXPECT_TRUE(absl::IsNotFound(Note(ada, kBob, "x")));
  EXPECT_TRUE(absl::IsNotFound(Tag(ada, kBob, {"x"})));
  EXPECT_TRUE(Get(root, kBob).ok());
  EXPECT_THAT(*some_.past.NotesOf(kBob), IsEmpty());
  v1::FindJobsRequest find;
  v1::FindJobsResponse found;
  find.set_id_part("01J000");
  find.set_past(true);
  ASSERT_TRUE(FindJobs(manager_, &some_.records, ada, find, found).ok());
  ASSERT_THAT(found.jobs(), SizeIs(1));
  EXPECT_EQ(found.jobs(0).id(), kAda);
  find.set_past(false);
  found.Clear();
  ASSERT_TRUE(FindJobs(manager_, &some_.records, root, find, found).ok());
  EXPECT_THAT(found.jobs(), IsEmpty());
}

TEST_F(RecordCallsTest, ARecordComesWithItsJob) {
  ASSERT_TRUE(Get(RightsOf("ada"), kAda).ok());
  EXPECT_TRUE(response_.job().past());
  EXPECT_EQ(response_.record().id(), kAda);
  EXPECT_TRUE(
      absl::IsNotFound(Get(RightsOf("ada"), "01J0000000000000000000NONE")));
  EXPECT_TRUE(absl::IsInvalidArgument(Get(RightsOf("ada"), "")));
}

TEST_F(RecordCallsTest, AnybodyNotesAndTheNoteSaysWho) {
  ASSERT_TRUE(Note(RightsOf("eve"), kAda, "two\nlines").ok());
  ASSERT_THAT(response_.record().notes(), SizeIs(1));
  EXPECT_EQ(response_.record().notes(0).author(), "eve");
  EXPECT_EQ(response_.record().notes(0).text(), "two\nlines");
  for (const std::string& text :
       {std::string(), std::string(" \n\t"),
        std::string(limits::kJobNoteBytes + 1, 'x'), std::string("\x1b[2J"),
        std::string("a\0b", 3)}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Note(RightsOf("eve"), kAda, text)));
  }
  EXPECT_TRUE(
      Note(RightsOf("eve"), kAda, std::string(limits::kJobNoteBytes, 'x'))
          .ok());
}

TEST_F(RecordCallsTest, OwnersAndAdminsTag) {
  ASSERT_TRUE(Tag(RightsOf("ada"), kAda, {"b", "a"}).ok());
  EXPECT_THAT(response_.record().tags(), ElementsAre("a", "b"));
  ASSERT_TRUE(Tag(RightsOf("ada"), kAda, {"c"}, {"a"}).ok());
  EXPECT_THAT(response_.record().tags(), ElementsAre("b", "c"));
  const absl::Status others = Tag(RightsOf("ada"), kBob, {"x"});
  EXPECT_TRUE(absl::IsPermissionDenied(others));
  EXPECT_THAT(std::string(others.message()), HasSubstr("bob's"));
  EXPECT_TRUE(
      Tag(RightsOf("root", false, access::Role::kAdmin), kBob, {"x"}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(Tag(RightsOf("ada"), kAda, {})));
  EXPECT_TRUE(absl::IsInvalidArgument(Tag(RightsOf("ada"), kAda, {"a b"})));
  EXPECT_TRUE(absl::IsInvalidArgument(
      Tag(RightsOf("ada"), kAda, {}, {std::string(65, 'x')})));
  EXPECT_TRUE(absl::IsInvalidArgument(
      Tag(RightsOf("ada"), kAda, std::vector<std::string>(65, "x"))));
}

}  // namespace
}  // namespace mpsd::rpc
