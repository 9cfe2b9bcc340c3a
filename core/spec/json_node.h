// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_JSON_NODE_H_
#define MPSD_CORE_SPEC_JSON_NODE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/limits.h"

namespace mpsd::spec {

// A JSON value with its line number. Integers that fit int64 are kInteger, all
// other numbers kNumber.
struct JsonNode {
  enum class Kind { kNull, kBool, kInteger, kNumber, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  int line = 1;  // counted from 1
  bool boolean = false;
  int64_t integer = 0;
  double number = 0;  // also set for kInteger
  std::string text;   // of kString
  std::vector<JsonNode> items;
  // In file order, each with its name; a member's line is that of its name.
  std::vector<JsonNode> members;
  std::string name;  // of a member, else empty

  // The member of this name, or null.
  const JsonNode* Find(std::string_view name) const;
};

// Parses strict JSON (no comments, no duplicate names, at most
// limits::kJsonDepth levels, limits::kJsonValues values and `max_members` names
// per object); skips a UTF-8 byte order mark. InvalidArgument "<origin>:<line>:
// not valid JSON: …".
absl::StatusOr<JsonNode> ParseJson(std::string_view json,
                                   std::string_view origin,
                                   size_t max_members = limits::kJsonNames);

// How errors describe the value: `the string "x"`, `12`, `a list`, `null`.
std::string Describe(const JsonNode& node);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_JSON_NODE_H_
