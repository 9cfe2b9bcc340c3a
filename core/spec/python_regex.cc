// SPDX-License-Identifier: Apache-2.0
#include "core/spec/python_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <string>

#include "core/base/limits.h"
#include "core/base/text.h"

namespace mpsd::spec {
namespace {

constexpr size_t kMaxPattern = 1000;  // bytes
// A match takes some microseconds, a step of limits::kMatchSteps ten
// nanoseconds.
constexpr int64_t kStepsOfMatch = 1000;
constexpr int kWorkspace = 1024;        // bounds the states of a match
constexpr uint32_t kMatchLimit = 1000;  // look-aheads of a match

auto Bytes(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR8>(text.data());
}

absl::Status Wrong(std::string_view pattern, std::string_view reason) {
  constexpr size_t kShown = 200;
  const std::string shown =
      pattern.size() > kShown ? "" : base::Cat("\"", pattern, "\" ");
  return absl::InvalidArgumentError(
      base::Cat("the regular expression ", shown, reason));
}

}  // namespace

absl::StatusOr<PythonRegex> PythonRegex::Compile(std::string_view pattern) {
  if (pattern.size() > kMaxPattern) {
    return Wrong(pattern, base::Cat("is longer than ", kMaxPattern, " bytes"));
  }
  for (std::string_view part : {"{,", "(*", "(?(", "(?>"}) {
    if (pattern.find(part) == std::string_view::npos) continue;
    return Wrong(pattern,
                 base::Cat("has \"", part, "\", which is not supported"));
  }
  int error = 0;
  PCRE2_SIZE offset = 0;
  PythonRegex regex;
  regex.code_.reset(pcre2_compile_8(Bytes(pattern), pattern.size(),
                                    PCRE2_ANCHORED | PCRE2_NEVER_UTF |
                                        PCRE2_NEVER_BACKSLASH_C,
                                    &error, &offset, nullptr),
                    [](const pcre2_code_8* code) {
                      pcre2_code_free_8(const_cast<pcre2_code_8*>(code));
                    });
  if (regex.code_ == nullptr) {
    std::array<PCRE2_UCHAR8, 256> text = {};
    pcre2_get_error_message_8(error, text.data(), text.size());
    return Wrong(pattern,
                 base::Cat("is wrong at byte ", offset, ": ",
                           reinterpret_cast<const char*>(text.data())));
  }
  uint32_t references = 0;
  pcre2_pattern_info_8(regex.code_.get(), PCRE2_INFO_BACKREFMAX, &references);
  if (references > 0) {
    return Wrong(pattern, "has a back reference, which is not supported");
  }
  return regex;
}

bool PythonRegex::FullMatch(std::string_view name, int64_t* steps) const {
  if (steps != nullptr) *steps += kStepsOfMatch;
  if (name.size() > kMaxName) return false;
  const std::unique_ptr<pcre2_match_data_8, void (*)(pcre2_match_data_8*)>
      found(pcre2_match_data_create_8(1, nullptr), pcre2_match_data_free_8);
  const std::unique_ptr<pcre2_match_context_8, void (*)(pcre2_match_context_8*)>
      context(pcre2_match_context_create_8(nullptr),
              pcre2_match_context_free_8);
  pcre2_set_match_limit_8(context.get(), kMatchLimit);
  std::array<int, kWorkspace> workspace;
  const int result = pcre2_dfa_match_8(code_.get(), Bytes(name), name.size(), 0,
                                       0, found.get(), context.get(),
                                       workspace.data(), workspace.size());
  const bool failed = result < 0 && result != PCRE2_ERROR_NOMATCH;
  if (failed && steps != nullptr) *steps += limits::kMatchSteps;
  // The longest match comes first, alone if there is room for one.
  return result >= 0 &&
         pcre2_get_ovector_pointer_8(found.get())[1] == name.size();
}

std::string PatternKeyRegex(std::string_view key) {
  return base::Cat("(.*\\.)?(", key, ")$");
}

}  // namespace mpsd::spec
