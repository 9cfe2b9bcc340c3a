// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_STRINGS_H_
#define MPSD_CORE_BASE_STRINGS_H_

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace mpsd::base {

// absl::StrCat that also takes std::string_view: in an Abseil built for C++14
// (Debian's) absl::string_view is another type. An AlphaNum refers to its text,
// which must outlive the call of Cat.
template <typename T>
absl::AlphaNum ForAbsl(const T& value) {
  return value;
}
inline absl::AlphaNum ForAbsl(std::string_view text) {
  return absl::string_view(text.data(), text.size());
}

template <typename... T>
std::string Cat(const T&... parts) {
  return absl::StrCat(ForAbsl(parts)...);
}

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_STRINGS_H_
