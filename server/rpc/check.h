// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_CHECK_H_
#define MPSD_SERVER_RPC_CHECK_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "mpsd/v1/jobs.pb.h"

namespace mpsd::rpc {

// The bounds that proto/mpsd/v1 states. Every error is InvalidArgument and
// begins with the field's name.
inline constexpr int64_t kMaxChunkBytes = 1 << 20;
inline constexpr int kMaxBlobNames = 1000;
inline constexpr int kDefaultPageSize = 50;
inline constexpr int kMaxPageSize = 500;

absl::Status CheckId(const std::string& field, const std::string& id);
absl::Status CheckSha256(const std::string& field, const std::string& sha256);
absl::Status CheckNotNegative(const std::string& field, int64_t value);
absl::Status CheckSubmit(const v1::SubmitRequest& request);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_CHECK_H_
