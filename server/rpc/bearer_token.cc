// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/bearer_token.h"

#include <iterator>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "core/base/limits.h"

namespace mpsd::rpc {
namespace {

constexpr absl::string_view kScheme = "Bearer ";

}  // namespace

absl::StatusOr<std::optional<std::string_view>> BearerToken(
    const Metadata& metadata) {
  const auto [begin, end] = metadata.equal_range("authorization");
  if (begin == end) return std::nullopt;
  if (std::next(begin) != end) {
    return absl::UnauthenticatedError(
        "metadata authorization: expected one line, not several");
  }
  const std::string_view value(begin->second.data(), begin->second.size());
  const std::string scheme(value.substr(0, kScheme.size()));
  if (!absl::EqualsIgnoreCase(scheme, kScheme)) {
    return absl::UnauthenticatedError(
        "metadata authorization: expected \"Bearer TOKEN\"");
  }
  const std::string_view token = value.substr(kScheme.size());
  if (token.empty() || token.size() > limits::kTokenBytes) {
    return absl::UnauthenticatedError(
        "metadata authorization: the token is empty or too long");
  }
  return token;
}

}  // namespace mpsd::rpc
