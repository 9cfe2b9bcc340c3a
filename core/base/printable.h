// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_PRINTABLE_H_
#define MPSD_CORE_BASE_PRINTABLE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace mpsd::base {

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

// `text` if it has at most `max_bytes`, else its beginning, cut between
// characters, and "…", together at most `max_bytes`, which must be at least 3.
std::string Shortened(std::string_view text, size_t max_bytes);

// A user's `text` in a form that an error may quote: printable, one line, at
// most limits::kQuotedBytes.
std::string Quotable(std::string_view text);

// `text` with every line but the first indented, so that none of them can pass
// for the start of a log line.
std::string Indented(std::string_view text);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_PRINTABLE_H_
