// SPDX-License-Identifier: Apache-2.0
#include "core/base/fingerprint.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/printable.h"
#include "core/base/sha256.h"

namespace mpsd::base {
namespace {

constexpr char kPrefix[] = "SHA256:";
constexpr size_t kDigits = 64;

std::string Spelled(std::string_view digits) {
  std::string text(kPrefix);
  for (size_t at = 0; at < digits.size(); at += 2) {
    if (at > 0) text += ':';
    text += absl::ascii_toupper(digits[at]);
    text += absl::ascii_toupper(digits[at + 1]);
  }
  return text;
}

}  // namespace

std::string Fingerprint(std::string_view der) {
  return Spelled(Sha256Hex(der));
}

absl::StatusOr<std::string> ParseFingerprint(std::string_view text) {
  const std::string given(text);
  absl::string_view rest = absl::StripAsciiWhitespace(given);
  if (absl::StartsWithIgnoreCase(rest, kPrefix)) {
    rest.remove_prefix(sizeof(kPrefix) - 1);
  }
  const bool colons = rest.size() != kDigits;
  std::string digits;
  for (size_t at = 0; at < rest.size(); ++at) {
    if (colons && at % 3 == 2) {
      if (rest[at] != ':') break;
    } else if (absl::ascii_isxdigit(rest[at])) {
      digits += rest[at];
    } else {
      break;
    }
  }
  const size_t taken = digits.size() + (colons ? (digits.size() - 1) / 2 : 0);
  if (digits.size() != kDigits || taken != rest.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", Quotable(text),
        "' is not a fingerprint: expected SHA256: and 64 hexadecimal digits, "
        "as `mpsd tls show` prints on the daemon's machine"));
  }
  return Spelled(digits);
}

}  // namespace mpsd::base
