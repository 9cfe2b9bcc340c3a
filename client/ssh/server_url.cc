// SPDX-License-Identifier: Apache-2.0
#include "client/ssh/server_url.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/printable.h"

namespace mpsd::ssh {
namespace {

constexpr char kScheme[] = "ssh://";
constexpr size_t kLongestName = 255;   // a host, a user
constexpr size_t kLongestPath = 1024;  // no system has sockets with longer ones
constexpr uint32_t kMaxPort = 65535;

absl::Status Wrong(const std::string& text, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(
      "'", base::Quotable(text), "': ", why,
      "; expected ssh://[USER@]HOST[:PORT][/PATH/OF/mpsd.sock], as in "
      "ssh://ann@studio.local"));
}

bool IsWord(const std::string& word, const std::string& more) {
  return !word.empty() && word.size() <= kLongestName && word[0] != '-' &&
         std::all_of(word.begin(), word.end(), [&](unsigned char c) {
           return absl::ascii_isalnum(c) ||
                  more.find(static_cast<char>(c)) != std::string::npos;
         });
}

// "fe80::1%en0" is an address of one interface.
bool IsAddressV6(const std::string& host) {
  const size_t percent = host.find('%');
  const std::string address = host.substr(0, percent);
  in6_addr bytes;
  return inet_pton(AF_INET6, address.c_str(), &bytes) == 1 &&
         (percent == std::string::npos ||
          IsWord(host.substr(percent + 1), "._-"));
}

bool IsPort(const std::string& port) {
  uint32_t number = 0;
  return std::all_of(port.begin(), port.end(), absl::ascii_isdigit) &&
         absl::SimpleAtoi(port, &number) && number > 0 && number <= kMaxPort;
}

// Undoes "%20". False for a percent sign without two hexadecimal digits.
bool Decode(const std::string& text, std::string* decoded) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded->push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size() || !absl::ascii_isxdigit(text[i + 1]) ||
        !absl::ascii_isxdigit(text[i + 2])) {
      return false;
    }
    decoded->append(absl::HexStringToBytes(text.substr(i + 1, 2)));
    i += 2;
  }
  return true;
}

// Takes "[::1]:22" or "studio:22" apart; false where brackets do not fit.
bool Split(const std::string& text, ServerUrl* url, bool* has_port) {
  std::string rest;
  if (!text.empty() && text[0] == '[') {
    const size_t end = text.find(']');
    if (end == std::string::npos) return false;
    url->host = text.substr(1, end - 1);
    if (!IsAddressV6(url->host)) return false;
    rest = text.substr(end + 1);
    if (!rest.empty() && rest[0] != ':') return false;
  } else {
    const size_t colon = std::min(text.find(':'), text.size());
    url->host = text.substr(0, colon);
    rest = text.substr(colon);
    if (!IsWord(url->host, "._-")) return false;
  }
  *has_port = !rest.empty();
  if (*has_port) url->port = rest.substr(1);
  return true;
}

}  // namespace

bool IsServerUrl(const std::string& server) {
  return absl::StartsWithIgnoreCase(server, kScheme);
}

absl::StatusOr<ServerUrl> ParseServerUrl(const std::string& text) {
  if (!IsServerUrl(text)) return Wrong(text, "it does not begin with ssh://");
  ServerUrl url;
  std::string place = text.substr(sizeof(kScheme) - 1);
  const size_t slash = place.find('/');
  if (slash != std::string::npos) {
    const std::string path = place.substr(slash);
    place = place.substr(0, slash);
    if (!Decode(path, &url.path)) {
      return Wrong(text, "a percent sign in the path is written %25");
    }
    if (url.path == "/") url.path.clear();
    if (url.path.size() > kLongestPath) {
      return Wrong(text, absl::StrCat("the path is longer than ", kLongestPath,
                                      " bytes"));
    }
    if (!base::IsPrintable(url.path)) {
      return Wrong(text, "the path holds characters that nobody can see");
    }
  }
  if (const size_t at = place.rfind('@'); at != std::string::npos) {
    url.user = place.substr(0, at);
    place = place.substr(at + 1);
    if (absl::StrContains(url.user, ":")) {
      // The text is not quoted: it holds a password.
      return Wrong("ssh://…",
                   "a password does not belong there, ssh asks for "
                   "it");
    }
    if (!IsWord(url.user, "._-+=@")) {
      return Wrong(text, "that user is a name no account has");
    }
  }
  bool has_port = false;
  if (!Split(place, &url, &has_port)) {
    return Wrong(text, "that host is no name and no address");
  }
  if (has_port && !IsPort(url.port)) {
    return Wrong(text, "the port is a number of 1 to 65535");
  }
  return url;
}

}  // namespace mpsd::ssh
