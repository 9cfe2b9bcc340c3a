// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"
#include "mpsd/v1/jobs.pb.h"

namespace mpsd::rpc {

// Of a page token's digest, in hexadecimal digits.
inline constexpr size_t kPageDigestDigits = 12;

// Checks a request against the bounds of core/base/limits.h, as stated in
// proto/mpsd/v1. Every error is InvalidArgument and begins with the field's
// name.

// Parses a message of at most `most_bytes`, and empties `bytes`. Drops fields
// that this version does not know: they would live as long as the message, and
// take many times their bytes.
absl::Status ParseRequest(grpc::ByteBuffer& bytes, size_t most_bytes,
                          google::protobuf::Message& message);

// A displayed text of a job or a token: at most `max` bytes, and without
// control characters that a terminal obeys.
absl::Status CheckText(const std::string& field, const std::string& value,
                       size_t max);
absl::Status CheckLength(const std::string& field, const std::string& value,
                         size_t max);
absl::Status CheckCount(const std::string& field, size_t count, size_t max);
absl::Status CheckPageSize(const std::string& field, int32_t size, int32_t max);
absl::Status CheckId(const std::string& field, const std::string& id);
absl::Status CheckSha256(const std::string& field, const std::string& sha256);
absl::Status CheckNotNegative(const std::string& field, int64_t value);
absl::Status CheckSubmit(const v1::SubmitRequest& request);
// Checks the filter and the page token, but not the states.
absl::Status CheckList(const v1::ListJobsRequest& request);

}  // namespace mpsd::rpc
