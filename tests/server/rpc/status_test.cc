// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/status.h"

#include <string>

#include "gtest/gtest.h"

namespace mpsd::rpc {
namespace {

TEST(ToGrpc, EveryCodeHasItsTwin) {
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  const std::pair<absl::StatusCode, grpc::StatusCode> twins[] = {
      {absl::StatusCode::kCancelled, grpc::StatusCode::CANCELLED},
      {absl::StatusCode::kUnknown, grpc::StatusCode::UNKNOWN},
      {absl::StatusCode::kInvalidArgument, grpc::StatusCode::INVALID_ARGUMENT},
      {absl::StatusCode::kDeadlineExceeded,
       grpc::StatusCode::DEADLINE_EXCEEDED},
      {absl::StatusCode::kNotFound, grpc::StatusCode::NOT_FOUND},
      {absl::StatusCode::kAlreadyExists, grpc::StatusCode::ALREADY_EXISTS},
      {absl::StatusCode::kPermissionDenied,
       grpc::StatusCode::PERMISSION_DENIED},
      {absl::StatusCode::kResourceExhausted,
       grpc::StatusCode::RESOURCE_EXHAUSTED},
      {absl::StatusCode::kFailedPrecondition,
       grpc::StatusCode::FAILED_PRECONDITION},
      {absl::StatusCode::kAborted, grpc::StatusCode::ABORTED},
      {absl::StatusCode::kOutOfRange, grpc::StatusCode::OUT_OF_RANGE},
      {absl::StatusCode::kUnimplemented, grpc::StatusCode::UNIMPLEMENTED},
      {absl::StatusCode::kInternal, grpc::StatusCode::INTERNAL},
      {absl::StatusCode::kUnavailable, grpc::StatusCode::UNAVAILABLE},
      {absl::StatusCode::kDataLoss, grpc::StatusCode::DATA_LOSS},
      {absl::StatusCode::kUnauthenticated, grpc::StatusCode::UNAUTHENTICATED}};
  for (const auto& [ours, theirs] : twins) {
    const grpc::Status status = ToGrpc(absl::Status(ours, "why"));
    EXPECT_EQ(status.error_code(), theirs);
    EXPECT_EQ(status.error_message(), "why");
  }
}

TEST(ToGrpc, ALongMessageIsCut) {
  const grpc::Status status =
      ToGrpc(absl::InternalError(std::string(100'000, 'x')));
  EXPECT_LT(status.error_message().size(), 6200u);
  EXPECT_EQ(status.error_message().substr(0, 3), "xxx");
}

TEST(ValidUtf8, KeepsWhatIsValid) {
  for (const char* text :
       {"", "plain", "\u00e9", "\u20ac", "\U0001f600", "a\u0301\uffff",
        "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(ValidUtf8(text), text);
  }
}

TEST(ValidUtf8, ReplacesWhatIsNot) {
  EXPECT_EQ(ValidUtf8("a\xff z"), "a\uFFFD z");
  EXPECT_EQ(ValidUtf8("\x80"), "\uFFFD");
  EXPECT_EQ(ValidUtf8("\xc3"), "\uFFFD");                      // cut
  EXPECT_EQ(ValidUtf8("\xc0\xaf"), "\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(ValidUtf8("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(ValidUtf8("\xf4\x90\x80\x80"),
            "\uFFFD\uFFFD\uFFFD\uFFFD");  // above U+10FFFF
  EXPECT_EQ(ValidUtf8("\xe2\x82x"), "\uFFFD\uFFFDx");
}

}  // namespace
}  // namespace mpsd::rpc
