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

TEST(ExitCodeTest, OfAJob) {
  EXPECT_EQ(ForJobState(v1::JOB_STATE_SUCCEEDED), ExitCode::kOk);
  EXPECT_EQ(ForJobState(v1::JOB_STATE_FAILED), ExitCode::kJobFailed);
  EXPECT_EQ(ForJobState(v1::JOB_STATE_CANCELLED), ExitCode::kJobCancelled);
  EXPECT_EQ(ForJobState(v1::JOB_STATE_QUEUED), ExitCode::kOk);
}

TEST(ExitCodeTest, HelpNamesEachNumber) {
  const std::string help = ExitCodeHelp();
  for (ExitCode code :
       {ExitCode::kOk, ExitCode::kJobFailed, ExitCode::kBadInput,
        ExitCode::kUnreachable, ExitCode::kNotFound, ExitCode::kJobCancelled,
        ExitCode::kOther, ExitCode::kTryAgain, ExitCode::kDetached}) {
    EXPECT_TRUE(absl::StrContains(
        help, absl::StrCat("\n  ", static_cast<int>(code), " ")))
        << static_cast<int>(code);
  }
}

}  // namespace
}  // namespace mpsd::client
