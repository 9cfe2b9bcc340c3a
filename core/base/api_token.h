// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mpsd::base {

// The text of an API token, with which a client authenticates:
//
//   mpsd_ + 43 characters of base 62, the secret + 6 of them, a checksum
//
// Secret scanners find it as mpsd_[0-9A-Za-z]{49}; the checksum rejects other
// text of this form and mistyped tokens.
inline constexpr std::string_view kApiTokenPrefix = "mpsd_";
inline constexpr size_t kApiTokenBytes = 54;        // of the whole text
inline constexpr size_t kApiTokenSecretBytes = 32;  // random, within it

// The token of `secret`, which has kApiTokenSecretBytes bytes.
std::string ApiToken(std::string_view secret);

// Whether `text` is a well-formed token: case matters, surrounding whitespace
// is not allowed. Does not say whether a daemon knows the token.
bool IsApiToken(std::string_view text);

}  // namespace mpsd::base
