// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/logbook_calls.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/fake_logbook.h"

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

class LogbookCallsTest : public testing::Test {
 protected:
  LogbookCallsTest() {
    fake_.Put(kAda, "ada");
    fake_.Put(kBob, "bob");
  }
  std::vector<std::string> Search(const access::Rights& rights,
                                  const std::string& query = "") {
    v1::SearchRecordsRequest request;
    request.set_query(query);
    v1::SearchRecordsResponse response;
    const absl::Status status = SearchRecords(fake_.logbook, rights, request,
                                              fake_.clock.Now(), response);
    EXPECT_TRUE(status.ok()) << status;
    std::vector<std::string> ids;
    for (const auto& record : response.records()) ids.push_back(record.id());
    return ids;
  }
  absl::Status Get(const access::Rights& rights, const std::string& id) {
    v1::GetRecordRequest request;
    request.set_id(id);
    response_.Clear();
    return GetRecord(fake_.logbook, rights, request, response_);
  }
  absl::Status Note(const access::Rights& rights, const std::string& id,
                    const std::string& text) {
    v1::AddNoteRequest request;
    request.set_id(id);
    request.set_text(text);
    request.set_rejected(true);
    response_.Clear();
    return AddNote(fake_.logbook, rights, request, response_);
  }
  absl::Status Tag(const access::Rights& rights, const std::string& id,
                   const std::vector<std::string>& add,
                   const std::vector<std::string>& remove = {}) {
    v1::TagRecordRequest request;
    request.set_id(id);
    request.mutable_add()->Add(add.begin(), add.end());
    request.mutable_remove()->Add(remove.begin(), remove.end());
    response_.Clear();
    return TagRecord(fake_.logbook, rights, request, response_);
  }

  FakeLogbook fake_;
  v1::Record response_;
};

TEST_F(LogbookCallsTest, SearchesInPages) {
  for (int i = 0; i < 5; ++i) fake_.Put(absl::StrCat("J", i), "ada");
  v1::SearchRecordsRequest request;
  request.set_page_size(3);
  std::vector<int> pages;
  v1::SearchRecordsResponse response;
  do {
    response.Clear();
    ASSERT_TRUE(SearchRecords(fake_.logbook, RightsOf("ada"), request,
                              fake_.clock.Now(), response)
                    .ok());
    pages.push_back(response.records_size());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(pages, ElementsAre(3, 3, 1));
}

TEST_F(LogbookCallsTest, APageOrAQueryThatIsNoneIsRefused) {
  v1::SearchRecordsRequest request;
  v1::SearchRecordsResponse response;
  const auto fault = [&] {
    return std::string(SearchRecords(fake_.logbook, RightsOf("ada"), request,
                                     fake_.clock.Now(), response)
                           .message());
  };
  request.set_page_size(limits::kRecordPage + 1);
  EXPECT_THAT(fault(), HasSubstr("page_size: must be 0 to 200"));
  request.set_page_size(1);
  request.set_page_token("1.abc");
  EXPECT_THAT(fault(), HasSubstr("page_token:"));
  request.clear_page_token();
  ASSERT_EQ(fault(), "");
  request.set_page_token(response.next_page_token());
  request.set_query("steps>1");
  EXPECT_THAT(fault(), HasSubstr("page_token:"));
  request.clear_page_token();
  request.set_query("steps>x");
  EXPECT_THAT(fault(), HasSubstr("query:7: expected a number"));
}

TEST_F(LogbookCallsTest, OthersRecordsAreSeenUnlessJobsArePrivate) {
  EXPECT_THAT(Search(RightsOf("ada")), ElementsAre(kBob, kAda));
  EXPECT_THAT(Search(RightsOf("ada", true)), ElementsAre(kAda));
  EXPECT_THAT(Search(RightsOf("ada", true, access::Role::kAdmin)), SizeIs(2));
  // Nobody's record is no record of a caller without a name.
  fake_.Put("01J000000000000000000N0B0DY", "");
  EXPECT_THAT(Search(RightsOf("", true)), IsEmpty());
  EXPECT_TRUE(Get(RightsOf("ada"), kBob).ok());
  const absl::Status hidden = Get(RightsOf("ada", true), kBob);
  EXPECT_TRUE(absl::IsNotFound(hidden));
  absl::Status none = Get(RightsOf("ada", true), "01J0000000000000000000B0B2");
  EXPECT_EQ(std::string(hidden.message()).substr(52),
            std::string(none.message()).substr(52));
  EXPECT_TRUE(absl::IsNotFound(Get(RightsOf("ada", true), "B0B1")));
  EXPECT_TRUE(absl::IsNotFound(Note(RightsOf("ada", true), kBob, "x")));
  EXPECT_TRUE(absl::IsNotFound(Tag(RightsOf("ada", true), kBob, {"x"})));
  EXPECT_TRUE(absl::IsNotFound(Get(RightsOf("", true), kAda)));
}

TEST_F(LogbookCallsTest, AnIdMayBeAPart) {
  EXPECT_TRUE(Get(RightsOf("ada"), "ada1").ok());
  EXPECT_EQ(response_.id(), kAda);
  const absl::Status several = Get(RightsOf("ada"), "01J0");
  EXPECT_TRUE(absl::IsInvalidArgument(several));
  EXPECT_THAT(std::string(several.message()), HasSubstr(kBob));
  EXPECT_TRUE(absl::IsNotFound(Get(RightsOf("ada"), "ZZZZ")));
  for (const std::string& id :
       {std::string(), std::string("ADA"), std::string("../../etc"),
        std::string(27, 'A'), std::string("%%%%")}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Get(RightsOf("ada"), id))) << id;
  }
}

TEST_F(LogbookCallsTest, AJobThatEndedAMomentAgoHasItsRecord) {
  constexpr char kNew[] = "01J0000000000000000000NEW1";
  jobs::Job job;
  job.id = kNew;
  job.state = jobs::State::kFailed;
  job.create_time = fake_.clock.Now();
  ASSERT_TRUE(fake_.jobs
                  .Insert(job, {job.id, 1, job.create_time,
                                jobs::StateChanged{job.state, ""}})
                  .ok());
  fake_.store.End(kNew);
  EXPECT_TRUE(Get(RightsOf("ada"), kNew).ok());
}

TEST_F(LogbookCallsTest, AnybodyNotesAndTheNoteSaysWho) {
  ASSERT_TRUE(Note(RightsOf("eve"), kAda, "two\nlines").ok());
  ASSERT_THAT(response_.notes(), SizeIs(1));
  EXPECT_EQ(response_.notes(0).author(), "eve");
  EXPECT_TRUE(response_.notes(0).rejected());
  ASSERT_TRUE(Note(RightsOf("eve"), "", "an entry").ok());
  EXPECT_EQ(response_.owner(), "eve");
  EXPECT_EQ(response_.kind(), v1::JOB_KIND_UNSPECIFIED);
  EXPECT_THAT(response_.id(), SizeIs(26));
  for (const std::string& text :
       {std::string(), std::string(" \n\t"),
        std::string(limits::kRecordNoteBytes + 1, 'x'), std::string("\x1b[2J"),
        std::string("a\0b", 3)}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Note(RightsOf("eve"), kAda, text)));
  }
  EXPECT_TRUE(
      Note(RightsOf("eve"), kAda, std::string(limits::kRecordNoteBytes, 'x'))
          .ok());
  fake_.store.Fail(absl::ResourceExhaustedError("full"));
  EXPECT_TRUE(absl::IsResourceExhausted(Note(RightsOf("eve"), "", "x")));
}

TEST_F(LogbookCallsTest, OwnersAndAdminsTag) {
  ASSERT_TRUE(Tag(RightsOf("ada"), kAda, {"b", "a"}).ok());
  EXPECT_THAT(response_.tags(), ElementsAre("a", "b"));
  ASSERT_TRUE(Tag(RightsOf("ada"), kAda, {"c"}, {"a"}).ok());
  EXPECT_THAT(response_.tags(), ElementsAre("b", "c"));
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
