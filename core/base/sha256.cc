// SPDX-License-Identifier: Apache-2.0
#include "core/base/sha256.h"

#include <openssl/evp.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace mpsd::base {

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr);
}

Sha256::~Sha256() = default;

void Sha256::Update(std::string_view bytes) {
  EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size());
}

std::string Sha256::FinishHex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(context_->evp, digest, &size);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), size));
}

std::string Sha256Hex(std::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.FinishHex();
}

absl::StatusOr<std::string> Sha256File(const std::filesystem::path& path,
                                       const std::atomic<bool>* stop) {
  ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
  constexpr size_t kPiece = 8 << 20;
  std::string_view bytes = file->bytes();
  Sha256 hash;
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    if (stop != nullptr && *stop) {
      return absl::CancelledError(path.string() + ": is hashed no further");
    }
    hash.Update(bytes.substr(at, kPiece));
    file->DropPages(at, std::min(kPiece, bytes.size() - at));
    CountWork();
  }
  return hash.FinishHex();
}

namespace {

constexpr char kPrefix[] = "SHA256:";
constexpr size_t kFingerprintDigits = 64;

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
  const bool colons = rest.size() != kFingerprintDigits;
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
  if (digits.size() != kFingerprintDigits || taken != rest.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", Quotable(text),
        "' is not a fingerprint: expected SHA256: and 64 hexadecimal digits, "
        "as `mpsd tls show` prints on the daemon's machine"));
  }
  return Spelled(digits);
}

}  // namespace mpsd::base
