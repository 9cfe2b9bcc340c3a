// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HTTP_NEGOTIATE_H_
#define MPSD_SERVER_HTTP_NEGOTIATE_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mpsd::http {

// One entry of the headers Accept or Accept-Encoding: "text/plain;q=0.5".
struct Preference {
  std::string name;                               // in lower case
  std::map<std::string, std::string> parameters;  // without q
  double quality = 1;                             // 0 to 1; 0: not wanted
};

// The entries of a header, in its order. Leaves out what is no entry, and takes
// a quality that is no number for 0.
std::vector<Preference> ParsePreferences(std::string_view header);

// Whether a client that sent this Accept-Encoding reads gzip.
bool AcceptsGzip(std::string_view accept_encoding);

}  // namespace mpsd::http

#endif  // MPSD_SERVER_HTTP_NEGOTIATE_H_
