// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_JSON_DEPTH_H_
#define MPSD_CORE_BASE_JSON_DEPTH_H_

#include <string_view>

namespace mpsd::base {

// Whether arrays and objects of `json` are nested more than limits::kJsonDepth
// levels deep. Looks only at brackets outside strings, in one pass without
// recursion, so it also accepts text that is otherwise malformed.
bool NestsTooDeep(std::string_view json);

// `text` as a tree of nlohmann's `Json` (basic_json), or a discarded value if
// it is not JSON or is nested too deeply. Parsing does not recurse, but
// copying, comparing and writing a tree do: all text from outside this process
// must be parsed here.
template <typename Json>
Json ParseTree(std::string_view text) {
  if (NestsTooDeep(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_JSON_DEPTH_H_
