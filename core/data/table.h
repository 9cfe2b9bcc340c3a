// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_TABLE_H_
#define MPSD_CORE_DATA_TABLE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/language_row.h"
#include "core/spec/classification.h"

namespace mpsd::data {

struct TableRow {
  int64_t line = 0;            // first line in the file, from 1
  std::vector<RowJson> cells;  // one per column; null: absent
};

// A file of rows and named columns, in memory.
struct Table {
  bool json = false;  // cells have types; else all are strings
  std::vector<std::string> columns;
  std::vector<TableRow> rows;
  int64_t dropped_rows = 0;  // in a GLUE task's file, see below
};

// Parses `bytes` by the extension of `name`:
//  - .jsonl, .json: an object a line, or one array of objects; the columns are
//    the names of all rows;
//  - .csv: a header line and rows, quoted where needed (RFC 4180);
//  - .tsv, .txt: the same with tabs between the columns.
// With a GLUE task, .tsv and .txt are parsed as GLUE's files: without quoting,
// and for CoLA without a header line; rows that end too early are dropped and
// cells beyond the last column are ignored, as in Hugging Face's `glue` data
// set. Blank lines, a byte order mark and CRLF are accepted. `glue_task` may be
// null.
//
// InvalidArgument "<name>:<line>: <fault>" for rows whose width differs from
// the header's, unclosed quotes, bytes that are not text, duplicate columns,
// and values that are not JSON objects (at most five rows, one per line); for a
// file without rows; and for other extensions.
absl::StatusOr<Table> ReadTable(const std::string& name, std::string_view bytes,
                                const spec::GlueTask* glue_task);

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_TABLE_H_
