// SPDX-License-Identifier: Apache-2.0
#include "server/http/token.h"

#include <openssl/crypto.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/limits.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"

namespace mpsd::http {
namespace {

constexpr absl::string_view kScheme = "Bearer ";

bool IsTokenCharacter(char c) {
  return absl::ascii_isalnum(c) ||
         std::string_view("-._~+/=").find(c) != std::string_view::npos;
}

}  // namespace

absl::StatusOr<std::string> ReadTokenFile(const std::filesystem::path& path) {
  // The line may end in "\r\n".
  ASSIGN_OR_RETURN(std::string text,
                   base::ReadSecretFile(path, limits::kTokenBytes + 2));
  std::string token(absl::StripTrailingAsciiWhitespace(text));
  if (token.size() < limits::kLeastTokenBytes ||
      token.size() > limits::kTokenBytes ||
      !std::all_of(token.begin(), token.end(), IsTokenCharacter)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path.string(), ": expected a token of ", limits::kLeastTokenBytes,
        " to ", limits::kTokenBytes,
        " letters, digits and -._~+/= on one line; make one with: openssl "
        "rand -hex 32"));
  }
  return token;
}

bool HasToken(std::string_view authorization, std::string_view token) {
  const std::string scheme(authorization.substr(0, kScheme.size()));
  if (!absl::EqualsIgnoreCase(scheme, kScheme)) return false;
  // Digests have one length, so that neither the time nor the amount of memory
  // compared reveals the token's length.
  const std::string given =
      base::Sha256Hex(authorization.substr(kScheme.size()));
  const std::string wanted = base::Sha256Hex(token);
  return CRYPTO_memcmp(given.data(), wanted.data(), wanted.size()) == 0;
}

}  // namespace mpsd::http
