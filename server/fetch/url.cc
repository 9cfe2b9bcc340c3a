// SPDX-License-Identifier: Apache-2.0
#include "server/fetch/url.h"

#include <arpa/inet.h>
#include <curl/curl.h>

#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mpsd::fetch {
namespace {

using Handle = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

// A part of the URL, or "" where the URL lacks the part.
std::string PartOf(CURLU* url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return "";
  std::string result(text);
  curl_free(text);
  return result;
}

absl::StatusOr<Url> PartsOf(CURLU* url) {
  Url parts;
  parts.scheme = PartOf(url, CURLUPART_SCHEME);
  if (parts.scheme != "http" && parts.scheme != "https") {
    return absl::InvalidArgumentError("expected http:// or https://");
  }
  parts.host = absl::AsciiStrToLower(PartOf(url, CURLUPART_HOST));
  if (parts.host.empty()) return absl::InvalidArgumentError("expected a host");
  parts.has_credentials = !PartOf(url, CURLUPART_USER).empty() ||
                          !PartOf(url, CURLUPART_PASSWORD).empty();
  if (!absl::SimpleAtoi(PartOf(url, CURLUPART_PORT, CURLU_DEFAULT_PORT),
                        &parts.port)) {
    return absl::InvalidArgumentError("expected a port from 1 to 65535");
  }
  curl_url_set(url, CURLUPART_FRAGMENT, nullptr, 0);
  parts.text = PartOf(url, CURLUPART_URL);
  return parts;
}

absl::StatusOr<Url> Parsed(const std::string* base, const std::string& text) {
  const Handle url(curl_url(), curl_url_cleanup);
  if (base != nullptr) curl_url_set(url.get(), CURLUPART_URL, base->c_str(), 0);
  const bool whole = text.find('\0') == text.npos;
  if (!whole ||
      curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) {
    return absl::InvalidArgumentError("expected a URL as https://example.com");
  }
  return PartsOf(url.get());
}

}  // namespace

absl::StatusOr<Url> ParseUrl(const std::string& text) {
  return Parsed(nullptr, text);
}

absl::StatusOr<Url> Redirected(const Url& from, const std::string& location) {
  return Parsed(&from.text, location);
}

bool IsLoopback(const Url& url) {
  in_addr address;
  return url.host == "localhost" || url.host == "[::1]" ||
         (inet_pton(AF_INET, url.host.c_str(), &address) == 1 &&
          ntohl(address.s_addr) >> 24 == 127);
}

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' ||
        c == '.' || c == '_' || c == '~') {
      out += c;
    } else {
      absl::StrAppendFormat(&out, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace mpsd::fetch
