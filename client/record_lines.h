// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_RECORD_LINES_H_
#define MPSD_CLIENT_RECORD_LINES_H_

#include <string>

#include "absl/time/time.h"
#include "mpsd/v1/logbook.pb.h"

namespace mpsd::client {

enum class RecordFormat { kCsv, kJsonLines, kMarkdown };

// What stands before the first line; empty for JSON Lines.
std::string RecordHeader(RecordFormat format);

// One record as a line, with its line break. Other users give jobs names and
// write notes: CSV begins no cell with what a spreadsheet takes for a formula,
// and Markdown gets no markup, no link and no HTML. Times in CSV and JSON Lines
// are RFC 3339 in UTC, those in Markdown in `zone`.
std::string RecordLine(const v1::Record& record, RecordFormat format,
                       absl::TimeZone zone);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_RECORD_LINES_H_
