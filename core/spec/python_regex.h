// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

struct pcre2_real_code_8;

namespace mpsd::spec {

// A regular expression of Python's `re`, for module names (bytes, one line), by
// PCRE2's matcher without backtracking: no pattern hangs, and a match is what
// `re.fullmatch` finds. Rejects what that matcher lacks or reads otherwise:
// back references, conditions, atomic groups, "{,n}" and "(*". Immutable;
// copies share the compiled form.
class PythonRegex {
 public:
  static constexpr size_t kMaxName = 255;  // bytes; longer names never match

  // InvalidArgument: `the regular expression "…" …`, with the reason.
  static absl::StatusOr<PythonRegex> Compile(std::string_view pattern);

  // Python's `re.fullmatch(pattern, name) is not None`. Adds what it costs to
  // `steps`, if not null: more than limits::kMatchSteps if the pattern is too
  // complex to match.
  bool FullMatch(std::string_view name, int64_t* steps = nullptr) const;

 private:
  std::shared_ptr<const pcre2_real_code_8> code_;
};

// The regular expression that PEFT matches a key of rank_pattern and
// alpha_pattern with: rf"(.*\.)?({key})$" (peft 0.21, utils/other.py,
// get_pattern_key).
std::string PatternKeyRegex(std::string_view key);

}  // namespace mpsd::spec
