// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
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

// The faults of one text, collected so that a user can fix them all at once.
class Findings {
 public:
  // An empty `path` means the text as a whole.
  void Add(int line, std::string_view path, std::string_view message);

  bool empty() const { return list_.empty(); }

  // OK without findings; else InvalidArgument with one line each, ordered by
  // line: "<origin>:<line>: <path>: <message>". Lists at most 20.
  absl::Status ToStatus(std::string_view origin) const;

 private:
  struct Finding {
    int line;
    std::string text;
  };
  std::vector<Finding> list_;
};

}  // namespace mpsd::spec
