// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_FETCH_URL_H_
#define MPSD_SERVER_FETCH_URL_H_

#include <string>

#include "absl/status/statusor.h"

namespace mpsd::fetch {

// The parts of an http or https URL that decide who is asked.
struct Url {
  std::string text;              // the whole, as it is sent; without a fragment
  std::string scheme;            // "http" or "https"
  std::string host;              // lower case; an IPv6 address in brackets
  int port = 0;                  // the scheme's own where the URL names none
  bool has_credentials = false;  // a user or a password

  // Whether both ask the same server in the same way: what is meant for one may
  // be told to the other.
  bool SameServer(const Url& other) const {
    return scheme == other.scheme && host == other.host && port == other.port;
  }
};

// InvalidArgument where the text is no URL, has another scheme or no host; the
// message does not repeat the text, which may hold a secret.
absl::StatusOr<Url> ParseUrl(const std::string& text);

// Where a redirect leads that `from` was answered with; relative ones too.
absl::StatusOr<Url> Redirected(const Url& from, const std::string& location);

// Whether the host is this machine by its name or address: localhost, 127.0.0.1
// …, [::1].
bool IsLoopback(const Url& url);

// `text` as one part of a path or a query: all but letters, digits, '-', '.',
// '_' and '~' is written as "%2F".
std::string Escaped(const std::string& text);

}  // namespace mpsd::fetch

#endif  // MPSD_SERVER_FETCH_URL_H_
