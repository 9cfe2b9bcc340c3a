// SPDX-License-Identifier: Apache-2.0
#include "core/data/table.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "core/base/status_macros.h"
#include "core/base/strings.h"
#include "core/base/utf8.h"
#include "core/data/records.h"
#include "core/data/row_errors.h"
#include "core/data/shown.h"
#include "core/text/delimited.h"

namespace mpsd::data {
namespace {

using base::Cat;
using text::DelimitedRow;

absl::Status Bad(const std::string& message) {
  return absl::InvalidArgumentError(message);
}

absl::Status CheckText(const std::string& name, std::string_view bytes) {
  constexpr char kAdvice[] = "; save the file as UTF-8";
  int64_t line = 1;
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = base::CharacterLength(bytes.substr(at));
    if (length == 0) return Bad(Cat(name, ":", line, ": not UTF-8", kAdvice));
    if (bytes[at] == '\0') {
      return Bad(Cat(name, ":", line, ": a NUL byte is not text", kAdvice));
    }
    if (bytes[at] == '\n') ++line;
    at += length;
  }
  return absl::OkStatus();
}

std::string Columns(size_t count) {
  return Cat(count, count == 1 ? " column" : " columns");
}

class DelimitedReader {
 public:
  DelimitedReader(const std::string& name, char delimiter,
                  const spec::GlueTask* glue_task)
      : name_(name), delimiter_(delimiter), glue_task_(glue_task) {}

  absl::StatusOr<Table> Read(std::string_view bytes) {
    RETURN_IF_ERROR(CheckText(name_, bytes));
    ASSIGN_OR_RETURN(auto rows, text::ParseDelimited(bytes, delimiter_,
                                                     glue_task_ == nullptr));
    if (rows.empty()) {
      return Bad(Cat(name_,
                     ": the file is empty; expected a line with the names of "
                     "the columns, and rows"));
    }
    size_t next = 0;
    if (HasHeader(rows.front())) {
      RETURN_IF_ERROR(TakeHeader(rows.front()));
      next = 1;
    } else {
      table_.columns.resize(glue_task_->sentence1_index + 1);
      table_.columns[glue_task_->label_index] = glue_task_->label;
      table_.columns[glue_task_->sentence1_index] = glue_task_->sentence1;
    }
    for (; next < rows.size() && !errors_.full(); ++next) {
      TakeRow(std::move(rows[next]));
    }
    if (!errors_.empty()) return errors_.status();
    if (table_.rows.empty() && table_.dropped_rows == 0) {
      return Bad(Cat(name_, ": the file has a header line and no rows"));
    }
    return std::move(table_);
  }

 private:
  bool HasHeader(const DelimitedRow& first) const {
    if (glue_task_ == nullptr || glue_task_->sentence1_index < 0) return true;
    return std::find(first.fields.begin(), first.fields.end(),
                     glue_task_->sentence1) != first.fields.end();
  }

  absl::Status TakeHeader(const DelimitedRow& header) {
    std::set<std::string> seen;
    for (const std::string& column : header.fields) {
      if (column.empty() || seen.insert(column).second) continue;
      return Bad(Cat(name_, ":", header.line, ": the column ",
                     ContentsShown() ? Cat("\"", column, "\"")
                                     : Cat("(its name is ", kNotShown, ")"),
                     " appears twice; give every column its own name"));
    }
    if (const std::string fault = QuoteFault(header); !fault.empty()) {
      return Bad(Cat(name_, ":", header.line, ": ", fault));
    }
    table_.columns = header.fields;
    return absl::OkStatus();
  }

  static std::string QuoteFault(const DelimitedRow& row) {
    switch (row.fault) {
      case text::QuoteFault::kNone:
        return "";
      case text::QuoteFault::kUnclosed:
        return "a quoted field is not closed; end it with a quote, and write a "
               "quote within it twice";
      case text::QuoteFault::kBehindQuote:
        return "text after the closing quote of a field; write a quote within "
               "a quoted field twice, and quote the whole field";
    }
    return "";
  }

  void TakeRow(DelimitedRow row) {
    const size_t expected = table_.columns.size();
    const size_t found = row.fields.size();
    std::string fault = QuoteFault(row);
    if (fault.empty() && glue_task_ == nullptr && found != expected) {
      fault = Cat("expected ", Columns(expected), " as in the header, found ",
                  found, "; quote fields that hold ",
                  delimiter_ == ',' ? "commas" : "tabs", " or line breaks");
    }
    if (!fault.empty()) {
      errors_.Add(Cat(name_, ":", row.line), fault);
      return;
    }
    // Only for GLUE's files: without a task another width was a fault above.
    if (found < expected) {
      ++table_.dropped_rows;
      return;
    }
    TableRow taken;
    taken.line = row.line;
    taken.cells.reserve(expected);
    for (size_t i = 0; i < expected; ++i) {
      taken.cells.emplace_back(std::move(row.fields[i]));
    }
    table_.rows.push_back(std::move(taken));
  }

  const std::string& name_;
  const char delimiter_;
  const spec::GlueTask* const glue_task_;
  Table table_;
  RowErrors errors_;
};

absl::StatusOr<Table> ReadJsonRows(const std::string& name,
                                   std::string_view bytes) {
  Table table;
  table.json = true;
  RowErrors errors;
  std::map<std::string, size_t> column_of;
  RecordScanner records(bytes);
  while (!errors.full()) {
    const auto record = records.Next();
    if (!record.ok()) {
      errors.AddAt(name, std::string(record.status().message()));
      break;
    }
    if (!*record) break;
    const int64_t line = (*record)->line;
    absl::StatusOr<RowJson> json = ParseRowObject((*record)->text);
    if (!json.ok()) {
      errors.Add(Cat(name, ":", line), std::string(json.status().message()));
      continue;
    }
    TableRow row{line, std::vector<RowJson>(table.columns.size())};
    for (auto& [key, value] : json->items()) {
      const auto [at, is_new] = column_of.emplace(key, table.columns.size());
      if (is_new) {
        table.columns.push_back(key);
        row.cells.emplace_back();
      }
      row.cells[at->second] = std::move(value);
    }
    table.rows.push_back(std::move(row));
  }
  if (!errors.empty()) return errors.status();
  if (table.rows.empty()) {
    return Bad(Cat(
        name,
        ": the file is empty; expected a JSON object a line, or an array of "
        "them"));
  }
  // Rows before the first occurrence of a column lack its cell.
  for (TableRow& row : table.rows) row.cells.resize(table.columns.size());
  return table;
}

}  // namespace

absl::StatusOr<Table> ReadTable(const std::string& name, std::string_view bytes,
                                const spec::GlueTask* glue_task) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (bytes.starts_with(kByteOrderMark)) {
    bytes.remove_prefix(kByteOrderMark.size());
  }
  const std::string extension =
      absl::AsciiStrToLower(std::filesystem::path(name).extension().string());
  if (extension == ".jsonl" || extension == ".json") {
    return ReadJsonRows(name, bytes);
  }
  if (extension == ".csv") {
    return DelimitedReader(name, ',', nullptr).Read(bytes);
  }
  if (extension == ".tsv" || extension == ".txt") {
    return DelimitedReader(name, '\t', glue_task).Read(bytes);
  }
  return Bad(
      Cat(name, ": expected a file named .csv, .tsv, .txt (tabs) or .jsonl"));
}

}  // namespace mpsd::data
