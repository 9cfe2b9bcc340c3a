// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_GIVEN_H_
#define MPSD_CLIENT_GIVEN_H_

#include <string>

namespace mpsd::client {

// A check of CLI11's: a script whose variable is empty means something else
// than a user who leaves the option out. Empty where `text` is fine.
inline std::string Given(const std::string& text) {
  return text.empty() ? "expected a value, got an empty text" : "";
}

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_GIVEN_H_
