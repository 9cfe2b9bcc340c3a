// SPDX-License-Identifier: Apache-2.0
// Lists of jobs, of those that were deleted, too, and what is noted of them.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "server/rpc/list_calls.h"
#include "tests/server/rpc/api.h"

namespace mpsd::rpc {
namespace {

using testing::ElementsAreArray;

class ListJobsTest : public testing::Test {
 protected:
  explicit ListJobsTest(bool private_jobs = false)
      : daemon_({.private_jobs = private_jobs}) {}

  // A row whose id ends with `number`.
  jobs::Job Put(int number, State state = State::kFailed,
                const std::string& owner = "ada") {
    const jobs::Job job = InProcessDaemon::MakeJob(number, state, owner);
    daemon_.Put(job);
    return job;
  }
  // The numbers of the jobs of a page, which `response_` keeps.
  std::vector<int> Numbers(const v1::ListJobsRequest& request, const Api& by) {
    response_ = Ok(by.Call(&Jobs::List, request));
    std::vector<int> numbers;
    for (const v1::Job& job : response_.jobs()) {
      numbers.push_back(std::stoi(job.id().substr(3)));
      EXPECT_EQ(job.spec_json(), "");
      EXPECT_EQ(job.warnings_size(), 0);
    }
    return numbers;
  }
  std::vector<int> Numbers(const std::string& request) {
    return Numbers(Parsed<v1::ListJobsRequest>(request), ada_);
  }
  // That the request is refused with these words.
  void ExpectRefused(const v1::ListJobsRequest& request,
                     const std::string& words) {
    EXPECT_THAT(ada_.Call(&Jobs::List, request),
                Fails(StatusCode::kInvalidArgument, StartsWith(words)));
  }
  // All pages, one after the other.
  std::vector<std::vector<int>> Pages(v1::ListJobsRequest request) {
    std::vector<std::vector<int>> pages;
    do {
      pages.push_back(Numbers(request, ada_));
      EXPECT_LE(response_.next_page_token().size(), limits::kPageTokenBytes);
      request.set_page_token(response_.next_page_token());
    } while (!request.page_token().empty() && pages.size() < 100);
    return pages;
  }

  InProcessDaemon daemon_;
  const Api ada_ = daemon_.As("ada");
  v1::ListJobsResponse response_;
};

TEST_F(ListJobsTest, PagesThroughEveryJobOnce) {
  for (int i = 1; i <= 60; ++i) Put(i);
  EXPECT_THAT(Numbers(""), SizeIs(50));
  EXPECT_FALSE(response_.has_total());
  const auto pages = Pages(Parsed<v1::ListJobsRequest>("page_size: 25"));
  ASSERT_THAT(pages, SizeIs(3));
  EXPECT_EQ(pages[0].front(), 60);
  EXPECT_EQ(pages[1].front(), 35);
  EXPECT_THAT(pages[2], ElementsAre(10, 9, 8, 7, 6, 5, 4, 3, 2, 1));
  EXPECT_THAT(Numbers("page_size: 60 count: true"), SizeIs(60));
  EXPECT_EQ(response_.next_page_token(), "");
  EXPECT_EQ(response_.total(), 60);
  daemon_.Submit();
  response_ = Ok(ada_.Call(&Jobs::List));
  EXPECT_EQ(response_.jobs(0).queue_position(), 0);
}

TEST_F(ListJobsTest, EachFieldOfTheFilterAndOfTheOrderCounts) {
  jobs::Job job = InProcessDaemon::MakeJob(1, State::kFailed, "ada");
  job.name = "zebra";
  job.model = "org/tiny";
  job.labels["team"] = "nlp";
  job.eval_loss_after = 0.5;
  daemon_.Put(job);
  job = InProcessDaemon::MakeJob(2, State::kSucceeded, "bob");
  job.name = "moods";
  job.pinned = true;
  job.eval_loss_after = 0.25;
  daemon_.Put(job);
  job = InProcessDaemon::MakeJob(3, State::kQueued, "ada");
  job.name = "ant";
  job.held = true;
  daemon_.Put(job);
  Put(4, State::kCancelled, "bob");
  // A job N is made at second N, and ends nine seconds later.
  const std::string second = "{ seconds: 17000000";
  const std::pair<std::string, std::vector<int>> cases[] = {
      {"", {4, 3, 2, 1}},
      {"states: JOB_STATE_FAILED states: JOB_STATE_QUEUED "
       "states: JOB_STATE_FAILED",
       {3, 1}},
      {"owner: 'bob'", {4, 2}},
      {"labels { key: 'team' value: 'nlp' }", {1}},
      {"text: 'moods'", {2}},
      {"model: 'org/tiny'", {1}},
      {"create_time_from " + second + "03 }", {4, 3}},
      {"create_time_from " + second + "02 nanos: 1000 }", {4, 3}},
      {"create_time_to " + second + "03 }", {2, 1}},
      {"end_time_from " + second + "11 }", {4, 2}},
      {"end_time_to " + second + "11 }", {1}},
      {"pinned: true", {2}},
      {"pinned: false", {4, 3, 1}},
      {"held: true", {3}},
      {"ascending: true", {1, 2, 3, 4}},
      {"states: JOB_STATE_FAILED states: JOB_STATE_SUCCEEDED "
       "order: JOB_ORDER_EVAL_LOSS ascending: true",
       {2, 1}},
      {"owner: 'ada' order: JOB_ORDER_NAME ascending: true", {3, 1}}};
  for (const auto& [request, numbers] : cases) {
    EXPECT_THAT(Numbers(request), ElementsAreArray(numbers)) << request;
  }
}

TEST_F(ListJobsTest, TokensCarryEachValue) {
  for (int i = 1; i <= 5; ++i) {
    jobs::Job job = InProcessDaemon::MakeJob(i, State::kFailed);
    job.name = std::string(limits::kNameBytes, '.');
    job.owner = std::string(limits::kOwnerBytes, 'o');
    job.eval_loss_after = -1.0 / 3 * i;
    job.priority = -i;
    if (i < 3) job.end_time.reset();
    daemon_.Put(job);
  }
  for (int order = v1::JobOrder_MIN; order <= v1::JobOrder_MAX; ++order) {
    v1::ListJobsRequest request;
    request.set_order(static_cast<v1::JobOrder>(order));
    request.set_page_size(1);
    std::set<int> seen;
    const auto pages = Pages(request);
    EXPECT_THAT(pages, SizeIs(5)) << order;
    for (const std::vector<int>& page : pages) {
      ASSERT_THAT(page, SizeIs(1));
      EXPECT_TRUE(seen.insert(page[0]).second) << order;
    }
  }
}

// Rows as older versions stored them.
TEST_F(ListJobsTest, APageEndsPastItsBytes) {
  for (int i = 1; i <= 75; ++i) {
    jobs::Job job = InProcessDaemon::MakeJob(i, State::kFailed);
    job.labels["long"].assign(100'000, 'x');
    daemon_.Put(job);
  }
  std::vector<int> all;
  const auto pages = Pages(Parsed<v1::ListJobsRequest>("page_size: 500"));
  for (const std::vector<int>& page : pages) {
    all.insert(all.end(), page.begin(), page.end());
  }
  EXPECT_THAT(all, SizeIs(75));
  EXPECT_TRUE(std::is_sorted(all.rbegin(), all.rend()));
  EXPECT_THAT(pages, SizeIs(7)) << "eleven jobs are the first past the bound";
}

TEST_F(ListJobsTest, TheRequestIsBoundedAndBadFieldsAreNamed) {
  v1::ListJobsRequest most;
  for (int i = 0; i < limits::kFilterLabels; ++i) {
    (*most.mutable_labels())[std::to_string(i)] = "v";
  }
  for (int i = 0; i < limits::kFilterStates; ++i) {
    most.add_states(v1::JOB_STATE_QUEUED);
  }
  most.set_owner(std::string(limits::kOwnerBytes, 'o'));
  most.set_text(std::string(limits::kFilterTextBytes, 't'));
  most.set_model(std::string(limits::kPathBytes, 'm'));
  EXPECT_THAT(ada_.Call(&Jobs::List, most), IsOk());
  const std::pair<std::string, const char*> cases[] = {
      {"labels { key: 'one more' value: 'v' }", "labels: has 17 entries"},
      {"states: JOB_STATE_QUEUED", "states: has 6 entries"},
      {absl::StrCat("owner: '", std::string(257, 'o'), "'"),
       "owner: has 257 bytes"},
      {absl::StrCat("page_token: '", std::string(1025, 't'), "'"),
       "page_token: has 1025 bytes"},
      {absl::StrCat("text: '", std::string(257, 't'), "'"),
       "text: has 257 bytes"},
      {"text: 'a\\nb'", "text: 'a\\nb' has a line break"},
      {absl::StrCat("model: '", std::string(4097, 'm'), "'"),
       "model: has 4097 bytes"},
      {"page_size: -1", "page_size:"},
      {"page_size: 501", "page_size:"},
      {"order: 99", "order: 99 is not a job order"},
      {"end_time_to { nanos: 1000000000 }",
       "end_time_to: is not a time in the years 1 to 9999"},
      {"create_time_from { seconds: 4611686018427387904 }",
       "create_time_from: is not a time"}};
  for (const auto& [text, words] : cases) {
    v1::ListJobsRequest request = most;
    if (std::string(text).starts_with("order")) {
      request.set_order(static_cast<v1::JobOrder>(99));
    } else {
      ASSERT_TRUE(
          google::protobuf::TextFormat::MergeFromString(text, &request));
    }
    ExpectRefused(request, words);
  }
  ExpectRefused(Parsed<v1::ListJobsRequest>(
                    "states: JOB_STATE_QUEUED states: JOB_STATE_UNSPECIFIED"),
                "states[1]:");
}

TEST_F(ListJobsTest, TokensOfOthersAreRefused) {
  for (int i = 10; i < 15; ++i) Put(i);
  v1::ListJobsRequest request;
  request.set_page_size(2);
  Numbers(request, ada_);
  const std::string token = response_.next_page_token();
  for (const std::string& bad :
       {std::string("13"), std::string("."), std::string("x.y"), token + "0",
        "0" + token, token.substr(0, token.size() - 1), token + "i1",
        std::string(".."), token + "d0x1p0", token + "t!"}) {
    request.set_page_token(bad);
    ExpectRefused(request, "page_token:");
  }
  request.set_page_token(token);
  for (const char* other :
       {"owner: 'ana'", "text: 'x'", "model: 'x'", "ascending: true",
        "pinned: false", "held: false", "create_time_from {}",
        "create_time_to {}", "end_time_from {}", "end_time_to {}",
        "order: JOB_ORDER_STATE"}) {
    v1::ListJobsRequest changed = request;
    ASSERT_TRUE(google::protobuf::TextFormat::MergeFromString(other, &changed));
    ExpectRefused(changed, "page_token:");
  }
  request.set_count(true);
  request.set_page_size(3);  // may change from page to page
  EXPECT_THAT(Numbers(request, ada_), ElementsAre(12, 11, 10));
}

TEST_F(ListJobsTest, FindJobsAnswersWithIdNameAndState) {
  for (int i = 10; i < 31; ++i) Put(i, State::kFailed);
  const auto find = [&](const std::string& part) {
    v1::FindJobsRequest request;
    request.set_id_part(part);
    return ada_.Call(&Jobs::FindJobs, request);
  };
  const jobs::Job one = InProcessDaemon::MakeJob(11, State::kFailed);
  EXPECT_THAT(Ok(find(one.id.substr(20))),
              EqualsProto(absl::StrCat("jobs { id: '", one.id,
                                       "' name: 'job 11' state: "
                                       "JOB_STATE_FAILED owner: '' }")));
  const v1::FindJobsResponse many = Ok(find("01J000"));
  EXPECT_EQ(many.jobs_size(), 20);
  EXPECT_TRUE(many.more());
  EXPECT_EQ(many.jobs(0).name(), "job 30");
  EXPECT_EQ(Ok(find("job 12")).jobs(0).name(), "job 12");
  for (const std::string& none : {std::string("01K"), std::string(27, '0'),
                                  std::string("01K%"), std::string("../01K")}) {
    EXPECT_THAT(Ok(find(none)).jobs(), IsEmpty());
  }
  for (const std::string& part :
       {std::string(), std::string(257, '0'), std::string("01KA\0H", 6)}) {
    EXPECT_THAT(find(part),
                Fails(StatusCode::kInvalidArgument, StartsWith("id_part: ")));
  }
}

class PrivateListTest : public ListJobsTest {
 protected:
  PrivateListTest() : ListJobsTest(/*private_jobs=*/true) {
    mine_ = daemon_.Submit({.owner = "ada", .name = "mine"});
    his_ = daemon_.Submit(
        {.owner = "bob", .name = "his", .labels = {{"team", "his"}}});
  }
  std::vector<std::string> Ids(const std::string& request) {
    response_ =
        Ok(ada_.Call(&Jobs::List, Parsed<v1::ListJobsRequest>(request)));
    std::vector<std::string> ids;
    for (const v1::Job& job : response_.jobs()) ids.push_back(job.id());
    return ids;
  }
  std::string mine_, his_;
};

TEST_F(PrivateListTest, ShowsThePublicPartOfOthersJobs) {
  EXPECT_THAT(Ids(""), ElementsAre(his_, mine_));
  EXPECT_EQ(response_.jobs(0).owner(), "bob");
  EXPECT_EQ(response_.jobs(0).name(), "");
  EXPECT_EQ(response_.jobs(0).labels_size(), 0);
  EXPECT_EQ(response_.jobs(0).queue_position(), 1);
  EXPECT_EQ(response_.jobs(1).name(), "mine");
  v1::FindJobsRequest find;
  find.set_id_part(his_.substr(0, 10));
  const auto answer = Ok(ada_.Call(&Jobs::FindJobs, find));
  for (const auto& job : answer.jobs()) {
    EXPECT_EQ(job.name(), job.id() == mine_ ? "mine" : "");
  }
  for (const char* name : {"mine", "his"}) {
    find.set_id_part(name);
    EXPECT_THAT(Ok(ada_.Call(&Jobs::FindJobs, find)).jobs(),
                SizeIs(name == std::string("mine") ? 1 : 0));
  }
}

// The order of private losses reveals the losses, as a page token does, and
// "is there a job with team=nlp?" of a label.
TEST_F(PrivateListTest, WhatIsPrivateFindsAndSortsOwnJobsAlone) {
  for (const char* by :
       {"model: 'm'", "pinned: false", "held: false", "order: JOB_ORDER_NAME",
        "order: JOB_ORDER_EVAL_LOSS", "order: JOB_ORDER_STORED_BYTES",
        "labels { key: 'team' value: 'his' }", "tags: 'his'"}) {
    EXPECT_THAT(Ids(by), Not(testing::Contains(his_))) << by;
    EXPECT_THAT(Ids(absl::StrCat(by, " owner: 'bob' count: true")), IsEmpty());
    EXPECT_EQ(response_.total(), 0);
  }
  EXPECT_THAT(Ids("order: JOB_ORDER_NAME"), ElementsAre(mine_));
  EXPECT_THAT(Ids("order: JOB_ORDER_DEVICE_SECONDS"), SizeIs(2));
  EXPECT_THAT(Ids("text: 'his'"), IsEmpty());
  EXPECT_THAT(Ids("text: 'mine'"), ElementsAre(mine_));
  // The page's caller has no name, and so no jobs.
  access::Caller page;
  page.way = access::Way::kPage;
  v1::ListJobsResponse none;
  EXPECT_THAT(
      ListJobs(*daemon_.board, nullptr, access::Rights(page, true),
               Parsed<v1::ListJobsRequest>("order: JOB_ORDER_NAME"), none),
      IsOk());
  EXPECT_THAT(none.jobs(), IsEmpty());
}

class RecordCallsTest : public testing::TestWithParam<bool> {
 protected:
  // A job that has failed, and was deleted.
  std::string Past(const std::string& owner) {
    const std::string id =
        daemon_.Ended({.owner = owner}, ExitReason::kRejected);
    daemon_.Delete(id);
    return id;
  }
  std::vector<std::string> List(const Api& by, const std::string& more = "") {
    list_ = Ok(by.Call(&Jobs::List, Parsed<v1::ListJobsRequest>(
                                        absl::StrCat("past: true ", more))));
    std::vector<std::string> ids;
    for (const v1::Job& job : list_.jobs()) ids.push_back(job.id());
    return ids;
  }
  static absl::StatusOr<v1::GetRecordResponse> Get(const Api& by,
                                                   const std::string& id) {
    return by.Call(&Jobs::GetRecord, ById<v1::GetRecordRequest>(id));
  }
  static absl::StatusOr<v1::GetRecordResponse> Note(const Api& by,
                                                    const std::string& id,
                                                    const std::string& text) {
    auto request = ById<v1::AddNoteRequest>(id);
    request.set_text(text);
    return by.Call(&Jobs::AddNote, request);
  }
  static absl::StatusOr<v1::GetRecordResponse> Tag(
      const Api& by, const std::string& id, const std::vector<std::string>& add,
      const std::vector<std::string>& remove = {}) {
    auto request = ById<v1::TagRequest>(id);
    request.mutable_add()->Add(add.begin(), add.end());
    request.mutable_remove()->Add(remove.begin(), remove.end());
    return by.Call(&Jobs::Tag, request);
  }

  InProcessDaemon daemon_{{.private_jobs = GetParam()}};
  const Api ada_ = daemon_.As("ada"), bob_ = daemon_.As("bob"),
            root_ = daemon_.As("root", Role::kAdmin);
  const std::string adas_ = Past("ada"), bobs_ = Past("bob");
  v1::ListJobsResponse list_;
};

INSTANTIATE_TEST_SUITE_P(Jobs, RecordCallsTest, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& info) {
                           return info.param ? "Private" : "Public";
                         });

TEST_P(RecordCallsTest, DeletedJobsAreListedInPages) {
  std::vector<size_t> pages;
  std::string first, token;
  do {
    pages.push_back(
        List(root_, absl::StrCat("page_size: 1 order: JOB_ORDER_OWNER "
                                 "page_token: '",
                                 token, "'"))
            .size());
    token = list_.next_page_token();
    if (first.empty()) first = token;
  } while (!token.empty());
  EXPECT_THAT(pages, ElementsAre(1, 1));
  // A token is of its filter and of deleted jobs.
  v1::ListJobsRequest request;
  request.set_page_token(first);
  EXPECT_THAT(root_.Call(&Jobs::List, request),
              Fails(StatusCode::kInvalidArgument));
  EXPECT_THAT(List(root_, "tags: 'none' count: true"), IsEmpty());
  EXPECT_EQ(list_.total(), 0);
}

TEST_P(RecordCallsTest, ARecordComesWithItsJob) {
  ASSERT_THAT(Tag(bob_, bobs_, {"b", "a"}), IsOk());
  ASSERT_THAT(List(bob_, "tags: 'a'"), ElementsAre(bobs_));
  EXPECT_TRUE(list_.jobs(0).past());
  EXPECT_EQ(list_.jobs(0).owner(), "bob");
  EXPECT_EQ(list_.jobs(0).state(), v1::JOB_STATE_FAILED);
  EXPECT_THAT(list_.jobs(0).tags(), ElementsAre("a", "b"));
  const v1::GetRecordResponse record = Ok(Get(ada_, adas_));
  EXPECT_TRUE(record.job().past());
  EXPECT_EQ(record.record().id(), adas_);
  EXPECT_THAT(Get(ada_, "01J0000000000000000000NONE"),
              Fails(StatusCode::kNotFound));
  EXPECT_THAT(Get(ada_, ""), Fails(StatusCode::kInvalidArgument));
}

TEST_P(RecordCallsTest, OthersRecordsAreSeenUnlessJobsArePrivate) {
  EXPECT_THAT(List(ada_), SizeIs(GetParam() ? 1 : 2));
  EXPECT_THAT(List(root_), ElementsAre(bobs_, adas_));
  EXPECT_EQ(List(ada_, "owner: 'bob'").empty(), GetParam());
  EXPECT_EQ(Get(ada_, bobs_).ok(), !GetParam());
  EXPECT_EQ(Note(ada_, bobs_, "x").ok(), !GetParam());
  EXPECT_THAT(Tag(ada_, bobs_, {"x"}),
              Fails(GetParam() ? StatusCode::kNotFound
                               : StatusCode::kPermissionDenied));
  EXPECT_THAT(Get(root_, bobs_), IsOk());
  EXPECT_THAT(*daemon_.past->NotesOf(bobs_), SizeIs(GetParam() ? 0 : 1));
  v1::FindJobsRequest find;
  find.set_id_part(adas_.substr(0, 6));
  find.set_past(true);
  EXPECT_THAT(Ok(ada_.Call(&Jobs::FindJobs, find)).jobs(),
              SizeIs(GetParam() ? 1 : 2));
  find.set_past(false);
  EXPECT_THAT(Ok(root_.Call(&Jobs::FindJobs, find)).jobs(), IsEmpty());
}

TEST_P(RecordCallsTest, ANoteSaysWhoWroteItAndOwnersAndAdminsTag) {
  const v1::JobRecord record = Ok(Note(ada_, adas_, "two\nlines")).record();
  ASSERT_THAT(record.notes(), SizeIs(1));
  EXPECT_EQ(record.notes(0).author(), "ada");
  EXPECT_EQ(record.notes(0).text(), "two\nlines");
  EXPECT_THAT(Note(ada_, adas_, std::string(limits::kJobNoteBytes, 'x')),
              IsOk());
  for (const std::string& text :
       {std::string(), std::string(" \n\t"),
        std::string(limits::kJobNoteBytes + 1, 'x'), std::string("\x1b[2J"),
        std::string("a\0b", 3)}) {
    EXPECT_THAT(Note(ada_, adas_, text), Fails(StatusCode::kInvalidArgument));
  }
  EXPECT_THAT(Ok(Tag(ada_, adas_, {"b", "a"})).record().tags(),
              ElementsAre("a", "b"));
  EXPECT_THAT(Ok(Tag(ada_, adas_, {"c"}, {"a"})).record().tags(),
              ElementsAre("b", "c"));
  EXPECT_THAT(Tag(root_, bobs_, {"x"}), IsOk());
  const std::pair<std::vector<std::string>, std::vector<std::string>> bad[] = {
      {{}, {}},
      {{"a b"}, {}},
      {{}, {std::string(65, 'x')}},
      {std::vector<std::string>(65, "x"), {}}};
  for (const auto& [add, remove] : bad) {
    EXPECT_THAT(Tag(ada_, adas_, add, remove),
                Fails(StatusCode::kInvalidArgument));
  }
}

}  // namespace
}  // namespace mpsd::rpc
