// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mpsd::text {

enum class QuoteFault {
  kNone,
  kUnclosed,     // a quoted field is not closed
  kBehindQuote,  // text follows a field's closing quote
};

struct DelimitedRow {
  int64_t line = 0;  // the row's first line, from 1
  std::vector<std::string> fields;
  QuoteFault fault = QuoteFault::kNone;
};

// The rows of a table of separated values (RFC 4180): fields that begin with a
// quote may contain delimiters, line breaks and doubled quotes. Without
// `quoting` a quote is an ordinary character (Python's csv.QUOTE_NONE). Lines
// end in LF, CRLF or CR; empty ones are skipped. Bytes are not decoded.
absl::StatusOr<std::vector<DelimitedRow>> ParseDelimited(std::string_view bytes,
                                                         char delimiter,
                                                         bool quoting);

// `text` in Unicode's normalisation form C, in which most text is; macOS may
// return names of files in form D. Unchanged if it is not UTF-8.
std::string Nfc(std::string_view text);

}  // namespace mpsd::text
