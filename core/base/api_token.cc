// SPDX-License-Identifier: Apache-2.0
#include "core/base/api_token.h"

#include "absl/strings/escaping.h"
#include "core/base/check.h"
#include "core/base/sha256.h"

namespace mpsd::base {
namespace {

constexpr std::string_view kDigits =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
// 62^43 > 2^256, 62^6 > 2^32.
constexpr size_t kSecretDigits = 43;
constexpr size_t kChecksumDigits = 6;
// The number of hex digits of the SHA-256 in the checksum: 32 bits.
constexpr size_t kChecksumHexDigits = 8;
static_assert(kApiTokenBytes ==
              kApiTokenPrefix.size() + kSecretDigits + kChecksumDigits);

// `bytes` as a number, most significant first, in base 62 with `digits` digits.
std::string Base62(std::string bytes, size_t digits) {
  std::string text(digits, kDigits[0]);
  for (size_t at = digits; at-- > 0;) {
    unsigned remainder = 0;
    for (char& byte : bytes) {
      const unsigned value = remainder << 8 | static_cast<unsigned char>(byte);
      byte = static_cast<char>(value / kDigits.size());
      remainder = value % kDigits.size();
    }
    text[at] = kDigits[remainder];
  }
  return text;
}

std::string Checksum(std::string_view text) {
  const std::string bits = Sha256Hex(text).substr(0, kChecksumHexDigits);
  return Base62(absl::HexStringToBytes(bits), kChecksumDigits);
}

}  // namespace

std::string ApiToken(std::string_view secret) {
  CheckEqual(secret.size(), kApiTokenSecretBytes, "bytes of a secret");
  const std::string text =
      std::string(kApiTokenPrefix) + Base62(std::string(secret), kSecretDigits);
  return text + Checksum(text);
}

bool IsApiToken(std::string_view text) {
  if (text.size() != kApiTokenBytes) return false;
  const size_t body = kApiTokenBytes - kChecksumDigits;
  const std::string_view digits = text.substr(kApiTokenPrefix.size());
  return text.substr(0, kApiTokenPrefix.size()) == kApiTokenPrefix &&
         digits.find_first_not_of(kDigits) == digits.npos &&
         text.substr(body) == Checksum(text.substr(0, body));
}

}  // namespace mpsd::base
