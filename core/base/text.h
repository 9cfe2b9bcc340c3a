// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/limits.h"

// Text of any bytes: joined, cut, and made safe to be shown or parsed.
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

// Bytes of the UTF-8 character at the beginning of `text`, which must not be
// empty; 0 if they are not well-formed (Unicode 15, table 3-7).
size_t CharacterLength(std::string_view text);

// How Printable treats line breaks and tabs.
enum class Breaks {
  kEscape,  // written out as "\n", "\t": the text stays one line
  kKeep,    // '\n' and '\t' are kept
};

// `text` made safe for a terminal, a log or a database: UTF-8 without
// characters that move the cursor, change the terminal's state or reverse the
// text direction. These are escaped in ASCII:
//   "\x1b"    control bytes (U+0000 to U+001F, U+007F; the common ones as "\n",
//             "\r" and "\t") and bytes that are not UTF-8;
//   "\u009b"  U+0080 to U+009F, the bidirectional controls (U+061C, U+200E,
//             U+200F, U+202A to U+202E, U+2066 to U+2069) and the separators
//             U+2028 and U+2029.
// Backslashes are kept, so that Printable is idempotent.
std::string Printable(std::string_view text, Breaks breaks = Breaks::kEscape);

// Whether Printable(text, breaks) equals `text`.
bool IsPrintable(std::string_view text, Breaks breaks = Breaks::kEscape);

// Whether nothing of `text` can be seen: it is empty, or has only spaces, tabs,
// line breaks and characters without a width or an ink (as U+200B, U+2800).
bool IsBlank(std::string_view text);

// `text` if it has at most `max_bytes`, else its beginning, cut between
// characters, and "…", together at most `max_bytes`, which must be at least 3.
std::string Shortened(std::string_view text, size_t max_bytes);

// A user's `text` in a form that an error may quote: printable, one line, at
// most limits::kQuotedBytes.
std::string Quotable(std::string_view text);

// `text` with every line but the first indented, so that none of them can pass
// for the start of a log line.
std::string Indented(std::string_view text);

// Whether arrays and objects of `json` are nested more than `levels` deep.
// Looks only at brackets outside strings, in one pass without recursion, so it
// also accepts text that is otherwise malformed.
bool NestsTooDeep(std::string_view json, int levels = limits::kJsonDepth);

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
