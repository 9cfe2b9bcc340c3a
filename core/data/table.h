// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/language_row.h"
#include "core/spec/classification.h"

namespace mpsd::data {

// A row's text as in the file.
struct Record {
  std::string_view text;
  int64_t line = 0;  // its first line, from 1
};

// Splits a file of JSON rows without parsing the rows: one row a line (JSON
// Lines), or one array of rows, recognised by its opening bracket. The scanner
// reads the bytes once and copies none.
//
//   RecordScanner records(bytes);
//   while (true) {
//     auto record = records.Next();
//     if (!record.ok() || !*record) break;
//     …
//   }
class RecordScanner {
 public:
  // `bytes` must outlive the scanner and its records. Skips a byte order mark.
  explicit RecordScanner(std::string_view bytes);

  // The next row that is not blank, an array's row without surrounding white
  // space; nullopt after the last row. Elements of an array that are not
  // objects are rows too; the row's parser reports them. InvalidArgument
  // "<line>: <fault>" for an array that is malformed around its rows: the
  // scanner cannot continue after the fault.
  absl::StatusOr<std::optional<Record>> Next();

  bool is_array() const { return array_; }
  // The number of bytes read so far.
  size_t position() const { return at_; }

 private:
  absl::StatusOr<std::optional<Record>> NextLine();
  absl::StatusOr<std::optional<Record>> NextElement();
  // The length in bytes of the value at at_; 0 if the value does not end.
  size_t ElementLength() const;
  void SkipSpace();
  void SkipBytes(size_t count);  // advances, counting lines
  absl::Status Fault(int64_t line, std::string_view what) const;

  const std::string_view bytes_;
  size_t at_ = 0;
  int64_t line_ = 1;  // the line of at_
  bool array_ = false;
  bool begun_ = false;  // a row of the array was returned
  bool done_ = false;   // the array ended
};

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
