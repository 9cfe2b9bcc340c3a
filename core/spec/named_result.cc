// SPDX-License-Identifier: Apache-2.0
#include "core/spec/named_result.h"

#include "core/base/limits.h"

namespace mpsd::spec {

bool IsJobId(std::string_view text) {
  return text.size() == limits::kWholeId &&
         text.find_first_not_of(kJobIdLetters) == std::string_view::npos;
}

bool NamesResult(std::string_view path) {
  return path.starts_with(kNamedResult);
}

std::string JobNamedBy(std::string_view path) {
  if (!NamesResult(path)) return "";
  const std::string_view id =
      path.substr(std::string_view(kNamedResult).size());
  return IsJobId(id) ? std::string(id) : "";
}

}  // namespace mpsd::spec
