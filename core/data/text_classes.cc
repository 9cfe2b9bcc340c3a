// SPDX-License-Identifier: Apache-2.0
#include "core/data/text_classes.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/data/in_order.h"
#include "core/data/row_errors.h"
#include "core/data/table.h"

namespace mpsd::data {
namespace {

using base::Cat;
using Names = std::vector<std::string>;

std::string QuotedNames(const Names& names) {
  if (!ContentsShown()) return kNotShown;
  Names quoted;
  for (const std::string& name : names) {
    if (!name.empty()) quoted.push_back(Cat("\"", base::Quotable(name), "\""));
  }
  return quoted.empty() ? "none" : absl::StrJoin(quoted, ", ");
}

// The sets of columns to look for, in this order.
std::vector<Names> TextCandidates(const spec::DatasetSpec& dataset,
                                  const spec::GlueTask* glue_task) {
  if (!dataset.text_columns.empty()) return {dataset.text_columns};
  if (glue_task == nullptr) {
    return {{"sentence1", "sentence2"}, {"sentence"}, {"text"}};
  }
  Names own = {std::string(glue_task->sentence1)};
  if (!glue_task->sentence2.empty()) {
    own.push_back(std::string(glue_task->sentence2));
  }
  if (own.size() == 1) return {own};
  return {own, {"sentence1", "sentence2"}, {"premise", "hypothesis"}};
}

Names LabelCandidates(const spec::DatasetSpec& dataset,
                      const spec::GlueTask* glue_task) {
  if (!dataset.label_column.empty()) return {dataset.label_column};
  if (glue_task == nullptr) return {"label"};
  return {std::string(glue_task->label), "label"};
}

std::optional<size_t> Find(const Names& columns, const std::string& name) {
  const auto it = std::find(columns.begin(), columns.end(), name);
  if (it == columns.end()) return std::nullopt;
  return it - columns.begin();
}

class TextRowReader {
 public:
  TextRowReader(const spec::DatasetSpec& dataset, LabelUse use,
                const LabelledTable* train)
      : dataset_(dataset),
        glue_task_(spec::FindGlueTask(dataset.task_name)),
        use_(use),
        train_(train) {}

  absl::StatusOr<LabelledTable> Read(const std::vector<std::string>& files) {
    result_.files = files;
    base::Sha256 hash;
    for (size_t i = 0; i < files.size(); ++i) {
      ASSIGN_OR_RETURN(auto file, base::MappedFile::Open(files[i]));
      hash.Update(file->bytes());
      ASSIGN_OR_RETURN(auto table,
                       ReadTable(files[i], file->bytes(), glue_task_));
      RETURN_IF_ERROR(Take(std::move(table), i));
    }
    if (!errors_.empty()) return errors_.status();
    if (result_.rows.empty()) {
      return absl::InvalidArgumentError(Cat(
          absl::StrJoin(files, ", "), ": no row has every column of the task"));
    }
    if (use_ == LabelUse::kOptional) DropUnknown();
    result_.hash = hash.FinishHex();
    return std::move(result_);
  }

 private:
  absl::Status Take(Table table, size_t file) {
    const std::string& name = result_.files[file];
    ASSIGN_OR_RETURN(const auto texts, TextColumns(name, table.columns));
    const bool pairs = texts.size() == 2;
    const LabelledTable* first = train_ != nullptr ? train_ : &result_;
    if (first == &result_ && file == 0) result_.pairs = pairs;
    if (pairs != first->pairs) {
      return absl::InvalidArgumentError(
          Cat(name, ": has ", texts.size(), " text columns and ",
              first->files[0], " ", first->pairs ? 2 : 1,
              "; set dataset.text_columns to columns that every file "
              "has"));
    }
    result_.pairs = pairs;
    ASSIGN_OR_RETURN(const auto label, LabelColumn(name, table.columns));
    result_.dropped_rows += table.dropped_rows;
    for (size_t i = 0; i < table.rows.size() && !errors_.full(); ++i) {
      TakeRow(table, table.rows[i], texts, label, static_cast<int32_t>(file));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<size_t>> TextColumns(const std::string& name,
                                                  const Names& columns) const {
    const std::vector<Names> candidates = TextCandidates(dataset_, glue_task_);
    for (const Names& names : candidates) {
      std::vector<size_t> found;
      for (const std::string& column : names) {
        if (const auto at = Find(columns, column)) found.push_back(*at);
      }
      if (found.size() == names.size()) return found;
    }
    std::vector<std::string> expected;
    expected.reserve(candidates.size());
    for (const Names& names : candidates) {
      expected.push_back(absl::StrJoin(
          names, " and ", [](std::string* out, const std::string& n) {
            *out += "\"" + n + "\"";
          }));
    }
    return absl::InvalidArgumentError(
        Cat(name, ": expected the text in ", absl::StrJoin(expected, ", or "),
            "; the columns are ", QuotedNames(columns),
            ": set dataset.text_columns"));
  }

  absl::StatusOr<std::optional<size_t>> LabelColumn(
      const std::string& name, const Names& columns) const {
    const Names candidates = LabelCandidates(dataset_, glue_task_);
    for (const std::string& candidate : candidates) {
      if (const auto at = Find(columns, candidate)) return at;
    }
    if (use_ == LabelUse::kOptional) return std::optional<size_t>();
    std::string expected = "\"" + candidates[0] + "\"";
    if (candidates.size() > 1 && candidates[1] != candidates[0]) {
      expected += " or \"" + candidates[1] + "\"";
    }
    return absl::InvalidArgumentError(
        Cat(name, ": expected the label in ", expected, "; the columns are ",
            QuotedNames(columns), ": set dataset.label_column"));
  }

  void TakeRow(const Table& table, TableRow& row,
               const std::vector<size_t>& texts, std::optional<size_t> label,
               int32_t file) {
    LabelledText taken;
    taken.file = file;
    taken.line = row.line;
    for (size_t i = 0; i < texts.size(); ++i) {
      RowJson& cell = row.cells[texts[i]];
      if (!IsText(cell)) {
        errors_.Add(Cat(result_.files[file], ":", row.line),
                    Cat(table.columns[texts[i]], ": expected a text, found ",
                        cell.is_null() ? "nothing" : DescribeJson(cell)));
        return;
      }
      (i == 0 ? taken.text : taken.pair) =
          std::move(cell.get_ref<std::string&>());
    }
    result_.rows.push_back(std::move(taken));
    LabelValue value;
    if (label) {
      const RowJson& cell = row.cells[*label];
      value = table.json ? LabelFromJson(cell)
                         : LabelFromText(cell.get_ref<const std::string&>());
    }
    result_.label_values.push_back(std::move(value));
  }

  // GLUE's own files have a few empty texts, which run_glue.py also trains on.
  bool IsText(const RowJson& cell) const {
    if (!cell.is_string()) return false;
    return glue_task_ != nullptr || !cell.get_ref<const std::string&>().empty();
  }

  // Test files have -1 (GLUE's) or -100 instead of labels. One unknown label
  // makes all of them useless for metrics.
  void DropUnknown() {
    const bool unknown =
        std::any_of(result_.label_values.begin(), result_.label_values.end(),
                    [](const LabelValue& l) {
                      return l.kind == LabelValue::Kind::kAbsent ||
                             l.text == "-1" || l.text == "-100";
                    });
    if (unknown) result_.label_values.clear();
  }

  const spec::DatasetSpec& dataset_;
  const spec::GlueTask* const glue_task_;
  const LabelUse use_;
  const LabelledTable* const train_;
  LabelledTable result_;
  RowErrors errors_;
};

}  // namespace

std::string LabelledTable::Place(int64_t index) const {
  return Cat(files[rows[index].file], ":", rows[index].line);
}

LabelPlace LabelledTable::places() const {
  return [this](int64_t index) { return Place(index); };
}

absl::StatusOr<LabelledTable> ReadLabelledTable(
    const std::vector<std::string>& files, const spec::DatasetSpec& dataset,
    LabelUse use, const LabelledTable* train) {
  if (files.empty())
    return absl::InvalidArgumentError("dataset: expected at least one file");
  return TextRowReader(dataset, use, train).Read(files);
}

std::string TextClasses::TokenDigest() const {
  base::Sha256 hash;
  hash.Update(samples_.Digest());
  const auto add = [&hash](const auto& values) {
    hash.Update({reinterpret_cast<const char*>(values.data()),
                 values.size() * sizeof values[0]});
  };
  add(targets_.classes);
  add(targets_.targets);
  return hash.FinishHex();
}

absl::StatusOr<Batch> TextClasses::Collate(
    const std::vector<std::vector<int64_t>>& rows,
    const Collation& collation) const {
  Batch batch;
  batch.rows = static_cast<int64_t>(rows.size());
  int64_t longest = 0;
  for (const std::vector<int64_t>& row : rows) {
    base::CheckEqual(row.size(), 1, "texts of a classifier's row");
    batch.samples.push_back(row[0]);
    batch.lengths.push_back(length(row[0]));
    batch.tokens += batch.lengths.back();
    longest = std::max(longest, batch.lengths.back());
  }
  batch.length = PaddedLength(longest, options_.max_length, collation.padding);
  const size_t cells = static_cast<size_t>(batch.rows * batch.length);
  batch.input_ids.assign(cells, options_.pad_id);
  if (has_types()) batch.token_type_ids.assign(cells, 0);
  for (int64_t row = 0; row < batch.rows; ++row) {
    const int64_t from = samples_.begin(batch.samples[row]);
    const int64_t at = row * batch.length;
    for (int64_t i = 0; i < batch.lengths[row]; ++i) {
      batch.input_ids[at + i] = samples_.id(from + i);
      if (has_types()) batch.token_type_ids[at + i] = samples_.mark(from + i);
    }
  }
  if (has_class_labels_) CopyClassTargets(class_labels_, targets_, batch);
  return batch;
}

// Fills a TextClasses, some rows at a time. Threads tokenize ranges; only the
// calling thread adds them, in the rows' order.
class TextClassesMaker {
 public:
  TextClassesMaker(const LabelledTable& rows, const text::Tokenizer& tokenizer,
                   TextClasses& made)
      : rows_(rows), tokenizer_(tokenizer), made_(made) {}

  absl::Status Make(const std::function<void(double)>& progress) {
    constexpr int64_t kMostRows = 256;  // per thread at a time
    DatasetStats& stats = made_.stats_;
    stats.dropped_rows = rows_.dropped_rows;
    stats.rows = static_cast<int64_t>(rows_.rows.size());
    const int threads = made_.options_.threads;
    InOrder<Range, EncodedTexts> pool(
        threads > 0 ? threads : WorkThreads(),
        [this](Range range) { return Encode(range); });
    const int64_t stride =
        std::clamp<int64_t>(stats.rows / kProgressSteps, 1, kMostRows);
    int64_t pushed = 0, taken = 0;
    while (taken < stats.rows && !errors_.full()) {
      if (pushed < stats.rows && !pool.full()) {
        const int64_t end = std::min(pushed + stride, stats.rows);
        pool.Push({pushed, end});
        pushed = end;
        continue;
      }
      const EncodedTexts encoded = pool.Take();
      taken = encoded.range.end;
      Add(encoded);
      if (progress) progress(static_cast<double>(taken) / stats.rows);
    }
    return errors_.status();
  }

 private:
  struct Range {
    int64_t begin, end;  // rows
  };
  struct EncodedTexts {
    Range range;
    std::vector<absl::StatusOr<text::ClassifierEncoding>> rows;
  };

  EncodedTexts Encode(Range range) const {
    EncodedTexts encoded;
    encoded.range = range;
    for (int64_t i = range.begin; i < range.end; ++i) {
      const LabelledText& row = rows_.rows[i];
      std::optional<std::string_view> pair;
      if (rows_.pairs) pair = row.pair;
      encoded.rows.push_back(tokenizer_.EncodeForClassifier(
          row.text, pair, made_.options_.max_length));
    }
    return encoded;
  }

  void Add(const EncodedTexts& encoded) {
    int64_t index = encoded.range.begin;
    std::vector<uint8_t> types;
    for (const auto& row : encoded.rows) {
      const int64_t at = index++;
      if (!row.ok()) {
        errors_.Add(rows_.Place(at), std::string(row.status().message()));
        continue;
      }
      const IdTables& tables = made_.options_.tables;
      std::string fault = TokenFault(row->ids, tables, tokenizer_);
      if (fault.empty()) fault = TypeFault(row->type_ids, tables);
      if (!fault.empty()) {
        errors_.Add(rows_.Place(at), fault);
        continue;
      }
      made_.stats_.tokens += static_cast<int64_t>(row->ids.size());
      made_.stats_.truncated_rows += row->truncated ? 1 : 0;
      types.assign(row->type_ids.begin(), row->type_ids.end());
      base::CheckEqual(types.size(), row->ids.size(), "types and ids");
      made_.samples_.Add(row->ids.data(), types.data(),
                         static_cast<int64_t>(row->ids.size()));
    }
  }

  const LabelledTable& rows_;
  const text::Tokenizer& tokenizer_;
  TextClasses& made_;
  RowErrors errors_;
};

absl::StatusOr<std::unique_ptr<TextClasses>> EncodeTextClasses(
    const LabelledTable& rows, const ClassLabels& class_labels,
    const text::Tokenizer& tokenizer, const TextClassesOptions& options,
    const std::function<void(double)>& progress) {
  auto made = absl::WrapUnique(new TextClasses(class_labels, options));
  made->pairs_ = rows.pairs;
  made->hash_ = rows.hash;
  made->has_class_labels_ = !rows.label_values.empty();
  ASSIGN_OR_RETURN(
      auto targets,
      EncodeClassLabels(rows.label_values, rows.places(), class_labels));
  made->targets_ = std::move(targets);
  RETURN_IF_ERROR(TextClassesMaker(rows, tokenizer, *made).Make(progress));
  return made;
}

}  // namespace mpsd::data
