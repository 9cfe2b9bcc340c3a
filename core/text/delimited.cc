// SPDX-License-Identifier: Apache-2.0
#include "core/text/delimited.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "core/base/status_macros.h"
#include "core/text/handover.h"

namespace mpsd::text {

absl::StatusOr<std::vector<DelimitedRow>> ParseDelimited(std::string_view bytes,
                                                         char delimiter,
                                                         bool quoting) {
  ReceivedBytes text, error;
  ReceivedSizes ends;
  ReceivedRows parsed;
  const int code =
      mpsd_text_parse_rows(View(bytes), delimiter, quoting, text.out(),
                           ends.out(), parsed.out(), error.out());
  RETURN_IF_ERROR(ToStatus(code, error, "table"));
  std::vector<DelimitedRow> rows(parsed->size);
  size_t field = 0, begin = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const mpsd_text_row& row = parsed->data[i];
    rows[i].line = static_cast<int64_t>(row.line);
    rows[i].fault = static_cast<QuoteFault>(row.fault);
    for (; field < row.fields_end; ++field) {
      const size_t end = ends->data[field];
      rows[i].fields.emplace_back(text->data + begin, end - begin);
      begin = end;
    }
  }
  return rows;
}

std::string Nfc(std::string_view text) {
  const bool ascii = absl::c_all_of(text, absl::ascii_isascii);
  ReceivedBytes normal, error;
  if (ascii ||
      mpsd_text_nfc(View(text), normal.out(), error.out()) != MPSD_TEXT_OK) {
    return std::string(text);
  }
  return {normal->data, normal->size};
}

}  // namespace mpsd::text
