// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/status.h"

#include <cstddef>
#include <cstdint>

namespace mpsd::rpc {
namespace {

// A message is a header, percent-encoded: a byte that is not printable ASCII
// counts three times. gRPC's peers refuse headers of 8 KiB together.
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

// The length of the UTF-8 sequence that `text` begins with; 0 for none. Table
// 3-7 of the Unicode standard.
size_t SequenceLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  size_t length = 0;
  uint8_t low = 0x80, high = 0xbf;  // of the second byte
  if (first >= 0xc2 && first <= 0xdf) {
    length = 2;
  } else if (first >= 0xe0 && first <= 0xef) {
    length = 3;
    if (first == 0xe0) low = 0xa0;
    if (first == 0xed) high = 0x9f;
  } else if (first >= 0xf0 && first <= 0xf4) {
    length = 4;
    if (first == 0xf0) low = 0x90;
    if (first == 0xf4) high = 0x8f;
  }
  if (length == 0 || text.size() < length) return 0;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  return length;
}

}  // namespace

std::string ValidUtf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    valid.append(length > 0 ? text.substr(0, length) : "\xef\xbf\xbd");
    text.remove_prefix(length > 0 ? length : 1);
  }
  return valid;
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message = CutToFit(std::string(status.message()));
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      ValidUtf8(message));
}

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                 const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

}  // namespace mpsd::rpc
