// SPDX-License-Identifier: Apache-2.0
#include "core/data/table.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/data/row_errors.h"
#include "core/spec/train_spec.h"
#include "core/text/delimited.h"

namespace mpsd::data {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

}  // namespace

// A row of JSON Lines is an object and begins with a brace, so that an opening
// bracket marks an array.
RecordScanner::RecordScanner(std::string_view bytes) : bytes_(bytes) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (bytes_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  const size_t first = bytes_.find_first_not_of(kSpace, at_);
  array_ = first != std::string_view::npos && bytes_[first] == '[';
  if (array_) SkipBytes(first + 1 - at_);
}

absl::StatusOr<std::optional<Record>> RecordScanner::Next() {
  return array_ ? NextElement() : NextLine();
}

absl::StatusOr<std::optional<Record>> RecordScanner::NextLine() {
  while (at_ < bytes_.size()) {
    const size_t end = std::min(bytes_.find('\n', at_), bytes_.size() - 1) + 1;
    const Record record{bytes_.substr(at_, end - at_), line_++};
    at_ = end;
    if (record.text.find_first_not_of(kSpace) != std::string_view::npos) {
      return record;
    }
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<Record>> RecordScanner::NextElement() {
  SkipSpace();
  if (done_) {
    if (at_ == bytes_.size()) return std::nullopt;
    return Fault(line_, "there is text after the array; expected its end");
  }
  if (at_ == bytes_.size()) {
    return Fault(line_, "the array is not closed; expected \"]\"");
  }
  if (bytes_[at_] == ']' && !begun_) {
    SkipBytes(1);
    done_ = true;
    return NextElement();
  }
  const Record record{bytes_.substr(at_, ElementLength()), line_};
  if (record.text.empty()) {
    return Fault(record.line, bytes_[at_] == ',' || bytes_[at_] == ']'
                                  ? "expected a row next to the comma"
                                  : "the row that begins here is not closed");
  }
  SkipBytes(record.text.size());
  begun_ = true;
  SkipSpace();
  if (at_ < bytes_.size() && bytes_[at_] != ',' && bytes_[at_] != ']') {
    return Fault(line_, "expected \",\" or \"]\" after a row of the array");
  }
  if (at_ < bytes_.size()) {
    done_ = bytes_[at_] == ']';
    SkipBytes(1);
  }
  return record;
}

// Finds the value's end by brackets and quotes alone; the row's parser checks
// the value. A backslash in a string skips the next byte, so that an escaped
// quote does not end the string.
size_t RecordScanner::ElementLength() const {
  int64_t depth = 0;
  for (size_t i = at_; i < bytes_.size(); ++i) {
    const char c = bytes_[i];
    if (c == '"') {
      for (++i; i < bytes_.size() && bytes_[i] != '"'; ++i) {
        if (bytes_[i] == '\\') ++i;
      }
      if (i >= bytes_.size()) return 0;
      if (depth == 0) return i + 1 - at_;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      if (depth == 0) return i - at_;  // a bare word before the bracket
      if (--depth == 0) return i + 1 - at_;
    } else if (depth == 0 &&
               (c == ',' || kSpace.find(c) != std::string_view::npos)) {
      return i - at_;
    }
  }
  return 0;
}

void RecordScanner::SkipSpace() {
  const size_t next =
      std::min(bytes_.find_first_not_of(kSpace, at_), bytes_.size());
  SkipBytes(next - at_);
}

void RecordScanner::SkipBytes(size_t count) {
  base::CheckAtMost(count, bytes_.size() - at_, "bytes passed and left");
  const auto begin = bytes_.begin() + at_;
  line_ += std::count(begin, begin + count, '\n');
  at_ += count;
}

absl::Status RecordScanner::Fault(int64_t line, std::string_view what) const {
  return absl::InvalidArgumentError(base::Cat(line, ": ", what));
}

namespace {

using base::Cat;
using text::DelimitedRow;

absl::Status CheckText(const std::string& name, std::string_view bytes) {
  constexpr char kAdvice[] = "; save the file as UTF-8";
  int64_t line = 1;
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = base::CharacterLength(bytes.substr(at));
    if (length == 0)
      return absl::InvalidArgumentError(
          Cat(name, ":", line, ": not UTF-8", kAdvice));
    if (bytes[at] == '\0') {
      return absl::InvalidArgumentError(
          Cat(name, ":", line, ": a NUL byte is not text", kAdvice));
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
      return absl::InvalidArgumentError(
          Cat(name_,
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
      return absl::InvalidArgumentError(
          Cat(name_, ": the file has a header line and no rows"));
    }
    return std::move(table_);
  }

 private:
  bool HasHeader(const DelimitedRow& first) const {
    if (glue_task_ == nullptr || glue_task_->sentence1_index < 0) return true;
    return std::find(first.fields.begin(), first.fields.end(),
                     glue_task_->sentence1) != first.fields.end();
  }

  // Excel writes a first line "sep=," and, in many countries, semicolons.
  std::string DelimiterFault(const DelimitedRow& header) const {
    const std::string& first = header.fields[0];
    if (first.starts_with("sep=")) {
      return "a line for Excel, not the names of the columns; remove it, and "
             "separate the columns by commas";
    }
    const size_t other =
        first.find_first_of(delimiter_ == ',' ? ";\t|" : ";,|");
    if (header.fields.size() > 1 || other == std::string::npos) return "";
    return Cat(
        "the columns seem to be separated by ",
        first[other] == '\t' ? "tabs" : Cat("\"", first.substr(other, 1), "\""),
        "; expected ", delimiter_ == ',' ? "commas" : "tabs",
        ": save the file as .csv with commas or as .tsv with tabs");
  }

  absl::Status TakeHeader(const DelimitedRow& header) {
    if (const std::string fault = DelimiterFault(header); !fault.empty()) {
      return absl::InvalidArgumentError(
          Cat(name_, ":", header.line, ": ", fault));
    }
    std::set<std::string> seen;
    for (const std::string& column : header.fields) {
      if (column.empty() || seen.insert(column).second) continue;
      return absl::InvalidArgumentError(
          Cat(name_, ":", header.line, ": the column ",
              ContentsShown() ? Cat("\"", column, "\"")
                              : Cat("(its name is ", kNotShown, ")"),
              " appears twice; give every column its own name"));
    }
    if (const std::string fault = QuoteFault(header); !fault.empty()) {
      return absl::InvalidArgumentError(
          Cat(name_, ":", header.line, ": ", fault));
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
    return absl::InvalidArgumentError(Cat(
        name,
        ": the file is empty; expected a JSON object a line, or an array of "
        "them"));
  }
  // Rows before the first occurrence of a column lack its cell.
  for (TableRow& row : table.rows) row.cells.resize(table.columns.size());
  return table;
}

std::string ExtensionOf(const std::string& name) {
  return absl::AsciiStrToLower(
      std::filesystem::path(name).extension().string());
}

}  // namespace

absl::StatusOr<Table> ReadTable(const std::string& name, std::string_view bytes,
                                const spec::GlueTask* glue_task) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (bytes.starts_with(kByteOrderMark)) {
    bytes.remove_prefix(kByteOrderMark.size());
  }
  const std::string extension = ExtensionOf(name);
  if (extension == ".jsonl" || extension == ".json") {
    return ReadJsonRows(name, bytes);
  }
  if (extension == ".csv") {
    return DelimitedReader(name, ',', nullptr).Read(bytes);
  }
  if (extension == ".tsv" || extension == ".txt") {
    return DelimitedReader(name, '\t', glue_task).Read(bytes);
  }
  RETURN_IF_ERROR(spec::CheckKindIsRead(name, bytes));
  return absl::InvalidArgumentError(
      Cat(name, ": expected a file named .csv, .tsv, .txt (tabs) or .jsonl"));
}

}  // namespace mpsd::data
