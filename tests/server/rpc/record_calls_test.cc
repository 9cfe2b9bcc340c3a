// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/record_calls.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/find_jobs.h"
#include "server/rpc/list_jobs.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kAda[] = "01J0000000000000000000ADA1";
constexpr char kBob[] = "01J0000000000000000000B0B1";

access::Rights RightsOf(const std::string& user, bool private_jobs = false,
                        access::Role role = access::Role::kUser) {
  access::Caller caller;
  caller.user = user;
  caller.role = role;
  return {caller, private_jobs};
}

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
    v1::GetRecordRequest request;
    request.set_id(id);
    response_.Clear();
    return GetRecord(some_.records, manager_, rights, request, response_);
  }
  absl::Status Note(const access::Rights& rights, const std::string& id,
                    const std::string& text) {
    v1::AddNoteRequest request;
    request.set_id(id);
    request.set_text(text);
    response_.Clear();
    return AddNote(some_.records, manager_, rights, request, response_);
  }
  absl::Status Tag(const access::Rights& rights, const std::string& id,
                   const std::vector<std::string>& add,
                   const std::vector<std::string>& remove = {}) {
    v1::TagRequest request;
    request.set_id(id);
    request.mutable_add()->Add(add.begin(), add.end());
    request.mutable_remove()->Add(remove.begin(), remove.end());
    response_.Clear();
    return TagJob(some_.records, manager_, rights, request, response_);
  }

  Scratch scratch_;
  FakeManager manager_{scratch_.path() / "jobs"};
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

// By gRPC: each call has its method, its rule and its audit.
class RecordServiceTest : public Served {};

TEST_F(RecordServiceTest, AnswersEachCall) {
  records_.Put(kAda, "ada");
  grpc::ClientContext c1, c2, c3;
  v1::GetRecordRequest get;
  get.set_id(kAda);
  v1::GetRecordResponse response;
  ASSERT_TRUE(jobs_->GetRecord(&c1, get, &response).ok());
  EXPECT_EQ(response.record().owner(), "ada");
  v1::AddNoteRequest note;
  note.set_id(kAda);
  note.set_text("seen");
  ASSERT_TRUE(jobs_->AddNote(&c2, note, &response).ok());
  EXPECT_EQ(response.record().notes_size(), 1);
  v1::TagRequest tag;
  tag.set_id(kAda);
  EXPECT_EQ(jobs_->Tag(&c3, tag, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace mpsd::rpc
