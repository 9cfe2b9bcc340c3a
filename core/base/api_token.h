// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_API_TOKEN_H_
#define MPSD_CORE_BASE_API_TOKEN_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace mpsd::base {

// The text of a token with which a client proves who it is:
//
//   mpsd_ + 43 characters of base 62, the secret + 6 of them, a checksum
//
// Programs that look for secrets find it as mpsd_[0-9A-Za-z]{49}; the checksum
// tells a token from other such text, and a whole token from a mistyped one.
inline constexpr std::string_view kApiTokenPrefix = "mpsd_";
inline constexpr size_t kApiTokenBytes = 54;        // of the whole text
inline constexpr size_t kApiTokenSecretBytes = 32;  // random, within it

// The token of `secret`, which has kApiTokenSecretBytes.
std::string ApiToken(std::string_view secret);

// Whether `text` is a whole token. Upper and lower case count, spaces and line
// breaks around it are no part of it. Tells nothing of whether a daemon knows
// the token.
bool IsApiToken(std::string_view text);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_API_TOKEN_H_
