// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_JSON_DEPTH_H_
#define MPSD_CORE_BASE_JSON_DEPTH_H_

#include <string_view>

namespace mpsd::base {

// Whether arrays and objects of `json` stand within each other more than
// limits::kJsonDepth levels deep. Looks only at brackets outside of strings, in
// one pass without recursion, so that text with other faults is answered too.
bool NestsTooDeep(std::string_view json);

// `text` as a tree of nlohmann's `Json` (basic_json), or a discarded value when
// it is no JSON or nests too deep. Reading builds such a tree without
// recursion, but copying, comparing and writing it recurse: for text that did
// not come from this process, this is the only way in.
template <typename Json>
Json ParseTree(std::string_view text) {
  if (NestsTooDeep(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_JSON_DEPTH_H_
