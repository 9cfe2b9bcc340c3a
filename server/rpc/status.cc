// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/status.h"

#include <cstddef>

#include "core/base/utf8.h"

namespace mpsd::rpc {
namespace {

// A message travels as a header, percent-encoded: a byte that is not printable
// ASCII takes three. gRPC peers refuse headers of more than 8 KiB in all.
constexpr size_t kMaxEncoded = 6144;

std::string CutToFit(const std::string& message) {
  size_t encoded = 0;
  for (size_t i = 0; i < message.size(); ++i) {
    const char c = message[i];
    encoded += c >= ' ' && c <= '~' && c != '%' ? 1 : 3;
    if (encoded > kMaxEncoded) return message.substr(0, i) + " …";
  }
  return message;
}

}  // namespace

std::string ValidUtf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const size_t length = base::CharacterLength(text);
    valid.append(length > 0 ? text.substr(0, length) : "\xef\xbf\xbd");
    text.remove_prefix(length > 0 ? length : 1);
  }
  return valid;
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  // The cut comes first, because it may fall within a character, which
  // ValidUtf8 then replaces.
  const std::string message = CutToFit(std::string(status.message()));
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      ValidUtf8(message));
}

}  // namespace mpsd::rpc
