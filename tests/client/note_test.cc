// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using NoteTest = ClientTest;

TEST_F(NoteTest, OfAJobAndOfADeletedOne) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  data().past.push_back(PastJob(kOtherId));
  EXPECT_EQ(RunVerb({"note", kId, "too hot"}).out,
            std::string(kId) + ": notes 1\n");
  EXPECT_EQ(data().records[kId].notes(0).text(), "too hot");
  EXPECT_EQ(RunVerb({"note", std::string(kOtherId).substr(20), "x"}).out,
            std::string(kOtherId) + ": notes 1\n");
  EXPECT_EQ(RunVerb({"note", kId}).code, 2);
  EXPECT_EQ(RunVerb({"note", "01KAH0000000000000000000ZZ", "x"}).code, 4);
}

TEST_F(NoteTest, TagsComeAndGo) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(RunVerb({"tag", kId, "baseline", "x/y"}).out,
            std::string(kId) + ": baseline, x/y\n");
  EXPECT_THAT(data().tagged.back().add(), ElementsAre("baseline", "x/y"));
  EXPECT_EQ(RunVerb({"tag", kId, "old", "--remove"}).code, 0);
  EXPECT_THAT(data().tagged.back().remove(), ElementsAre("old"));
  EXPECT_TRUE(data().tagged.back().add().empty());
  EXPECT_EQ(RunVerb({"tag", kId}).code, 2);
  Fail("Tag", StatusCode::PERMISSION_DENIED, "ann's");
  EXPECT_THAT(RunVerb({"tag", kId, "mine"}), Fails(8, HasSubstr("ann's")));
}

class AuditTest : public ClientTest {
 protected:
  v1::AuditEntry& Add(const std::string& user, const std::string& method) {
    v1::AuditEntry entry;
    entry.set_sequence(static_cast<int64_t>(data().audit.size()) + 1);
    SetTime(entry.mutable_time(), absl::ZeroDuration());
    entry.set_user(user);
    entry.set_role(v1::ROLE_USER);
    entry.set_way(v1::WAY_TOKEN);
    entry.set_credential("token 0a1b2c3d4e5f");
    entry.set_origin("192.168.1.7");
    entry.set_method(method);
    entry.set_result("OK");
    return *data().audit.insert(data().audit.begin(), entry);
  }
  const v1::ListAuditRequest& asked() { return data().audited.at(0); }
};

TEST_F(AuditTest, NewestFirstWithWhoHowWhenceWhatAndTheResult) {
  EXPECT_EQ(Out({"audit"}), "There were no requests.\n");
  Add("ada", "JobService.Submit").set_job_id(kId);
  data().audit[0].set_detail("inputs: 1");
  Add("bob", "JobService.Cancel").set_job_id(kId);
  data().audit[0].set_result("PERMISSION_DENIED");
  data().audit[0].set_message("the job is ada's");
  EXPECT_EQ(
      RunVerb({"audit"}).out,
      "TIME                 USER  BY                  FROM         WHAT    "
      "JOB                         RESULT             \n"
      "2026-01-02 03:04:05  bob   token 0a1b2c3d4e5f  192.168.1.7  Cancel  "
      "01KAH0000000000000000000AA  PERMISSION_DENIED  the job is ada's\n"
      "2026-01-02 03:04:05  ada   token 0a1b2c3d4e5f  192.168.1.7  Submit  "
      "01KAH0000000000000000000AA  OK                 inputs: 1\n");
}

TEST_F(AuditTest, AStrangerAndACallWithoutAnAnswerHaveDashesAndAMark) {
  v1::AuditEntry& entry = Add("", "JobService.Delete");
  entry.clear_credential();
  entry.clear_origin();
  entry.clear_result();
  EXPECT_THAT(RunVerb({"audit"}).out,
              HasSubstr("-     -   -     Delete  -    ?"));
}

TEST_F(AuditTest, FiltersAreSent) {
  EXPECT_EQ(
      RunVerb({"audit", "--user", "ada", "--job", kId, "--method", "Cancel",
               "--refused", "--since", "2h", "--until", "2026-01-02 03:00"})
          .code,
      0);
  EXPECT_EQ(asked().user(), "ada");
  EXPECT_EQ(asked().job_id(), kId);
  EXPECT_EQ(asked().method(), "Cancel");
  EXPECT_TRUE(asked().refused());
  EXPECT_EQ(asked().since().seconds(),
            absl::ToUnixSeconds(kNow - absl::Hours(2)));
  EXPECT_EQ(asked().until().seconds(),
            absl::ToUnixSeconds(kNow - absl::Minutes(4) - absl::Seconds(5)));
}

TEST_F(AuditTest, AShortIdIsThatOfAJobAndAWholeOneOfAnyJob) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  EXPECT_EQ(RunVerb({"audit", "--job", "00AA"}).code, 0);
  EXPECT_EQ(asked().job_id(), kId);
  EXPECT_EQ(RunVerb({"audit", "--job", "01kah0000000000000000000cc"}).code, 0);
  EXPECT_EQ(data().audited.at(1).job_id(), "01KAH0000000000000000000CC");
}

TEST_F(AuditTest, ATimeThatIsNoneIsRefused) {
  for (const char* time : {"yesterday", "-3d", "3", "3y", "d", "2026-13-01"}) {
    EXPECT_THAT(RunVerb({"audit", "--since", time}),
                Fails(2, HasSubstr("--since")))
        << time;
    EXPECT_TRUE(data().audited.empty()) << time;
  }
}

TEST_F(AuditTest, GoesOnPageByPageUpToItsLimit) {
  data().page_size = 2;
  for (int i = 0; i < 9; ++i) Add("ada", "JobService.Cancel");
  const Result result = RunVerb({"audit", "--limit", "5", "--json"});
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 5);
  EXPECT_THAT(data().audited, SizeIs(3));
}

TEST_F(AuditTest, HostileTextStaysText) {
  Add("ada", "JobService.Submit").set_detail("\x1b[2J");
  EXPECT_THAT(RunVerb({"audit"}).out, Not(HasSubstr("\x1b")));
  Fail("ListAudit", StatusCode::PERMISSION_DENIED, "role admin");
  EXPECT_THAT(RunVerb({"audit"}),
              Fails(testing::Ne(0), HasSubstr("role admin")));
}

}  // namespace
}  // namespace mpsd::client
