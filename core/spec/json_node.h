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

// A JSON value that knows its line. Integers that fit int64 are kInteger, every
// other number kNumber.
struct JsonNode {
  enum class Kind { kNull, kBool, kInteger, kNumber, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  int line = 1;  // counted from 1
  bool boolean = false;
  int64_t integer = 0;
  double number = 0;  // also set for kInteger
  std::string text;   // kString's
  std::vector<JsonNode> items;
  // In the order written, each with its name; a member's line is that of its
  // name.
  std::vector<JsonNode> members;
  std::string name;  // a member's, else empty

  // The member of this name, or null.
  const JsonNode* Find(std::string_view name) const;
};

// Parses strict JSON (no comments, no duplicate names, at most
// limits::kJsonDepth levels, limits::kJsonValues values and `max_members` names
// an object); a UTF-8 byte order mark is skipped. InvalidArgument
// "<origin>:<line>: not valid JSON: …".
absl::StatusOr<JsonNode> ParseJson(std::string_view json,
                                   std::string_view origin,
                                   size_t max_members = limits::kJsonNames);

// The value in the words of an error: `the string "x"`, `12`, `a list`, `null`.
std::string Describe(const JsonNode& node);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_JSON_NODE_H_
