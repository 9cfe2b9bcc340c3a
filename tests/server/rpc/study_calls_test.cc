// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/study_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "tests/server/rpc/fake_manager.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

using testing::HasSubstr;

class StudyCallsTest : public testing::Test {
 protected:
  void Put(const std::string& id, jobs::JobKind kind, jobs::State state) {
    jobs::Job job;
    job.id = id;
    job.kind = kind;
    job.state = state;
    job.output_path = scratch_.path().string();
    manager_.Put(job);
  }
  void Write(const std::string& text) {
    std::ofstream(scratch_.path() / "result.json") << text;
  }
  absl::StatusOr<v1::StudyResult> Get(const std::string& id) {
    v1::GetStudyResultRequest request;
    request.set_id(id);
    v1::StudyResult result;
    absl::Status status = GetStudyResult(manager_, request, result);
    if (!status.ok()) return status;
    return result;
  }

  absl::StatusOr<v1::StudyResult> Accept(const std::string& id,
                                         const std::string& reason,
                                         const std::string& user = "ada",
                                         jobs::RecordNotes* notes = nullptr) {
    v1::AcceptParityRequest request;
    request.set_id(id);
    request.set_reason(reason);
    v1::StudyResult result;
    absl::Status status =
        AcceptParity(manager_, notes, user, now_, request, result);
    if (!status.ok()) return status;
    return result;
  }
  // A parity "p" that did not pass.
  void PutParity(const std::string& verdict = "VERDICT_FAIL") {
    Put("p", jobs::JobKind::kParity, jobs::State::kSucceeded);
    Write(R"({"verdict": ")" + verdict +
          R"(", "parity": {"device": "mps", "accepted_by": "the worker"}})");
  }

  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  Scratch scratch_;
  FakeManager manager_;
};

// A logbook that keeps what it is told, or is full.
class FakeNotes : public jobs::RecordNotes {
 public:
  absl::Status Add(const std::string& job_id, const std::string& author,
                   const std::string& text) override {
    if (!fail.ok()) return fail;
    added.push_back(job_id + " " + author + " " + text);
    return absl::OkStatus();
  }
  absl::Status fail;
  std::vector<std::string> added;
};

TEST_F(StudyCallsTest, TheResultIsWhatTheWorkerWrote) {
  Put("a", jobs::JobKind::kSmoke, jobs::State::kSucceeded);
  Write(R"({"verdict": "VERDICT_FAIL", "smoke": {"device": "mps"},
            "findings": [{"name": "memory.growth", "value": 0.5}]})");
  const auto result = Get("a");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->job_id(), "a");
  EXPECT_EQ(result->verdict(), v1::VERDICT_FAIL);
  EXPECT_EQ(result->smoke().device(), "mps");
  ASSERT_EQ(result->findings_size(), 1);
  EXPECT_EQ(result->findings(0).value(), 0.5);
}

TEST_F(StudyCallsTest, WhoHasNoResultSaysWhy) {
  Put("t", jobs::JobKind::kTraining, jobs::State::kSucceeded);
  Put("r", jobs::JobKind::kParity, jobs::State::kRunning);
  EXPECT_EQ(Get("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Get("none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Get("t").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Get("t").status().message()), HasSubstr("trains"));
  EXPECT_EQ(Get("r").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Get("r").status().message()),
              HasSubstr("a parity, is RUNNING"));
}

TEST_F(StudyCallsTest, AFileThatIsNoResult) {
  Put("a", jobs::JobKind::kSmoke, jobs::State::kSucceeded);
  EXPECT_EQ(Get("a").status().code(), absl::StatusCode::kNotFound);
  Write("{");
  EXPECT_EQ(Get("a").status().code(), absl::StatusCode::kDataLoss);
  Write(std::string(limits::kStudyResultBytes + 1, ' '));
  EXPECT_FALSE(Get("a").ok());
  // A link leads nowhere that the worker could not have written itself.
  std::filesystem::remove(scratch_.path() / "result.json");
  std::filesystem::create_symlink("/dev/zero", scratch_.path() / "result.json");
  EXPECT_FALSE(Get("a").ok());
  const std::filesystem::path secret =
      scratch_.path().parent_path() /
      absl::StrCat(scratch_.path().filename().string(), ".secret");
  std::ofstream(secret) << "a secret of this machine";
  std::filesystem::remove(scratch_.path() / "result.json");
  std::filesystem::create_symlink(secret, scratch_.path() / "result.json");
  const absl::Status refused = Get("a").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              testing::Not(HasSubstr("a secret")));
  std::filesystem::remove(secret);
}

TEST_F(StudyCallsTest, ASignOffIsShownWithTheResult) {
  PutParity();
  EXPECT_EQ(Get("p")->parity().accepted_by(), "") << "the worker's own word";
  const auto accepted = Accept("p", "reviewed on Monday");
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  for (const v1::StudyResult& result : {*accepted, *Get("p")}) {
    EXPECT_EQ(result.job_id(), "p");
    EXPECT_EQ(result.verdict(), v1::VERDICT_FAIL);
    EXPECT_EQ(result.parity().device(), "mps");
    EXPECT_EQ(result.parity().accepted_by(), "ada");
    EXPECT_EQ(result.parity().accepted_reason(), "reviewed on Monday");
    EXPECT_EQ(result.parity().accepted_time().seconds(), 1'700'000'000);
  }
}

TEST_F(StudyCallsTest, SigningAgainChangesNothingButForAnotherReason) {
  PutParity();
  FakeNotes notes;
  ASSERT_TRUE(Accept("p", "first", "ada", &notes).ok());
  now_ += absl::Hours(1);
  auto again = Accept("p", "first", "ada", &notes);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->parity().accepted_time().seconds(), 1'700'000'000);
  EXPECT_EQ(notes.added.size(), 1u);
  again = Accept("p", "second", "bob", &notes);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->parity().accepted_by(), "bob");
  EXPECT_EQ(again->parity().accepted_time().seconds(), 1'700'003'600);
  EXPECT_EQ(notes.added,
            (std::vector<std::string>{"p ada parity signed off: first",
                                      "p bob parity signed off: second"}));
}

TEST_F(StudyCallsTest, ALogbookThatFailedIsToldTheNextTime) {
  PutParity();
  FakeNotes notes;
  notes.fail = absl::ResourceExhaustedError("the disk is full");
  EXPECT_EQ(Accept("p", "why", "ada", &notes).status().code(),
            absl::StatusCode::kResourceExhausted);
  notes.fail = absl::OkStatus();
  ASSERT_TRUE(Accept("p", "why", "ada", &notes).ok());
  EXPECT_EQ(notes.added.size(), 1u);
  // A job of an older mpsd has no record.
  notes.fail = absl::NotFoundError("no record");
  EXPECT_TRUE(Accept("p", "another", "ada", &notes).ok());
  EXPECT_EQ(Get("p")->parity().accepted_reason(), "another");
}

TEST_F(StudyCallsTest, ARecordWithoutRoomTellsOfNoSignOff) {
  PutParity();
  FakeNotes notes;
  notes.fail = absl::ResourceExhaustedError("200 notes");
  const absl::Status told = Accept("p", "why", "ada", &notes).status();
  EXPECT_EQ(told.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(told.message()),
              HasSubstr("kept with the result, but not in the logbook: 200"));
  EXPECT_EQ(Get("p")->parity().accepted_reason(), "why");
}

TEST_F(StudyCallsTest, ANewResultIsNotSignedOff) {
  PutParity();
  ASSERT_TRUE(Accept("p", "why").ok());
  PutParity("VERDICT_WARN");
  EXPECT_EQ(Get("p")->parity().accepted_by(), "");
}

TEST_F(StudyCallsTest, OnlyAParityThatDidNotPassIsSignedOff) {
  PutParity("VERDICT_PASS");
  const auto code = [&](const std::string& id, const std::string& reason) {
    return Accept(id, reason).status().code();
  };
  EXPECT_EQ(code("p", "why"), absl::StatusCode::kFailedPrecondition);
  PutParity();
  EXPECT_EQ(code("p", ""), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("p", "\x1b[2J"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("p", std::string(limits::kReasonBytes + 1, 'x')),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("p", std::string(limits::kReasonBytes, 'x')),
            absl::StatusCode::kOk);
  EXPECT_EQ(code("none", "why"), absl::StatusCode::kNotFound);
  EXPECT_EQ(code("", "why"), absl::StatusCode::kInvalidArgument);
  Put("r", jobs::JobKind::kParity, jobs::State::kRunning);
  EXPECT_EQ(code("r", "why"), absl::StatusCode::kFailedPrecondition);
  Put("t", jobs::JobKind::kTraining, jobs::State::kSucceeded);
  EXPECT_EQ(code("t", "why"), absl::StatusCode::kFailedPrecondition);
  Put("s", jobs::JobKind::kSmoke, jobs::State::kSucceeded);
  Write(R"({"verdict": "VERDICT_FAIL", "smoke": {}})");
  EXPECT_EQ(code("s", "why"), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace mpsd::rpc
