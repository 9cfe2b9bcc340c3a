// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_PRINTABLE_H_
#define MPSD_CORE_BASE_PRINTABLE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace mpsd::base {

// What Printable does with line breaks and tabs.
enum class Breaks {
  kEscape,  // the text stays one line: "\n", "\t" are written out
  kKeep,    // '\n' and '\t' stay
};

// `text` safe for a terminal, a log or a database: UTF-8 without characters
// that move the cursor, change the terminal's state or reverse the order of
// words. These are written out in ASCII instead:
//   "\x1b"    bytes of control (U+0000 to U+001F, U+007F), of which "\n", "\r"
//             and "\t" go by those names, and bytes that are no UTF-8;
//   "\u009b"  U+0080 to U+009F, the bidirectional controls (U+061C, U+200E,
//             U+200F, U+202A to U+202E, U+2066 to U+2069) and the separators
//             U+2028 and U+2029.
// Backslashes stay as they are, so that Printable of its own result changes
// nothing.
std::string Printable(std::string_view text, Breaks breaks = Breaks::kEscape);

// Whether Printable(text, breaks) equals `text`.
bool IsPrintable(std::string_view text, Breaks breaks = Breaks::kEscape);

// `text` when it has at most `max_bytes`, else its beginning, cut between
// characters, and "…", together at most `max_bytes`, which are 3 or more.
std::string Shortened(std::string_view text, size_t max_bytes);

// A user's `text` in a form that an error may quote: printable, one line, at
// most limits::kQuotedBytes.
std::string Quotable(std::string_view text);

// `text` with every line but the first moved to the right, so that none of its
// lines passes for the beginning of a log's line.
std::string Indented(std::string_view text);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_PRINTABLE_H_
