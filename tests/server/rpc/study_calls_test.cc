// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/study_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

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

  Scratch scratch_;
  FakeManager manager_;
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
  Put("r", jobs::JobKind::kProfile, jobs::State::kRunning);
  EXPECT_EQ(Get("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Get("none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Get("t").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Get("t").status().message()), HasSubstr("trains"));
  EXPECT_EQ(Get("r").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Get("r").status().message()),
              HasSubstr("a profile, is RUNNING"));
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

}  // namespace
}  // namespace mpsd::rpc
