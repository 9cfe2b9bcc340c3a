// SPDX-License-Identifier: Apache-2.0
#include "client/exit_code.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace mpsd::client {
namespace {

TEST(ExitCodeTest, OfAStatus) {
  const std::pair<grpc::StatusCode, ExitCode> table[] = {
      {grpc::StatusCode::OK, ExitCode::kOk},
      {grpc::StatusCode::UNAVAILABLE, ExitCode::kUnreachable},
      {grpc::StatusCode::DEADLINE_EXCEEDED, ExitCode::kTryAgain},
      {grpc::StatusCode::NOT_FOUND, ExitCode::kNotFound},
      {grpc::StatusCode::UNAUTHENTICATED, ExitCode::kNotLetIn},
      {grpc::StatusCode::PERMISSION_DENIED, ExitCode::kNotLetIn},
      {grpc::StatusCode::INVALID_ARGUMENT, ExitCode::kBadInput},
      {grpc::StatusCode::FAILED_PRECONDITION, ExitCode::kBadInput},
      {grpc::StatusCode::ALREADY_EXISTS, ExitCode::kBadInput},
      {grpc::StatusCode::RESOURCE_EXHAUSTED, ExitCode::kOther},
      {grpc::StatusCode::INTERNAL, ExitCode::kOther},
  };
  for (const auto& [status, code] : table) {
    EXPECT_EQ(ForStatus(grpc::Status(status, "")), code) << status;
  }
}

TEST(ExitCodeTest, OfATunnel) {
  EXPECT_EQ(ForTunnel(absl::UnavailableError("")), ExitCode::kUnreachable);
  EXPECT_EQ(ForTunnel(absl::InvalidArgumentError("")), ExitCode::kBadInput);
  EXPECT_EQ(ForTunnel(absl::InternalError("")), ExitCode::kOther);
  for (const auto code : {grpc::StatusCode::PERMISSION_DENIED,
                          grpc::StatusCode::UNAUTHENTICATED}) {
    EXPECT_EQ(ForTunnel(absl::Status(static_cast<absl::StatusCode>(code), "")),
              ForStatus(grpc::Status(code, "")))
        << "refused is refused, whoever does it";
  }
}

TEST(ExitCodeTest, OfAJob) {
  EXPECT_EQ(ForJobState(v1::JOB_STATE_SUCCEEDED), ExitCode::kOk);
  EXPECT_EQ(ForJobState(v1::JOB_STATE_FAILED), ExitCode::kJobFailed);
  EXPECT_EQ(ForJobState(v1::JOB_STATE_CANCELLED), ExitCode::kJobCancelled);
  EXPECT_EQ(ForJobState(v1::JOB_STATE_QUEUED), ExitCode::kOk);
}

TEST(ExitCodeTest, OfAVerdict) {
  EXPECT_EQ(ForVerdict(v1::VERDICT_PASS), ExitCode::kOk);
  EXPECT_EQ(ForVerdict(v1::VERDICT_WARN), ExitCode::kVerdictWarn);
  EXPECT_EQ(ForVerdict(v1::VERDICT_FAIL), ExitCode::kVerdictFail);
  EXPECT_EQ(ForVerdict(v1::VERDICT_UNSPECIFIED), ExitCode::kOk);
}

TEST(ExitCodeTest, HelpNamesEachNumber) {
  const std::string help = ExitCodeHelp();
  for (ExitCode code :
       {ExitCode::kOk, ExitCode::kJobFailed, ExitCode::kBadInput,
        ExitCode::kUnreachable, ExitCode::kNotFound, ExitCode::kJobCancelled,
        ExitCode::kOther, ExitCode::kTryAgain, ExitCode::kNotLetIn,
        ExitCode::kVerdictFail, ExitCode::kVerdictWarn, ExitCode::kDetached}) {
    EXPECT_TRUE(absl::StrContains(
        help, absl::StrCat("\n  ", static_cast<int>(code), " ")))
        << static_cast<int>(code);
  }
}

}  // namespace
}  // namespace mpsd::client
