// SPDX-License-Identifier: Apache-2.0
#include "core/data/token_dataset.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "core/base/check.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/data/in_order.h"
#include "core/data/language_row.h"
#include "core/data/language_row_encoder.h"
#include "core/data/row_errors.h"
#include "core/data/table.h"
#include "core/spec/train_spec.h"

namespace mpsd::data {
namespace {

using base::Cat;
using File = std::unique_ptr<base::MappedFile>;

// A thread takes whole rows of about this many bytes at a time; less if there
// are few data, so that every thread gets some.
constexpr size_t kPiece = 32 << 10;
constexpr size_t kPieces = 256;
// Bytes of a file whose pages are dropped at a time; a multiple of every page
// size.
constexpr size_t kRead = 256 << 10;

// Consecutive rows of a file that one thread tokenizes: of JSON, or of a table.
struct Piece {
  std::vector<Record> records;
  std::vector<TableRow> rows;
  std::shared_ptr<const std::vector<std::string>> columns;  // of `rows`
  size_t bytes = 0;  // the bytes of the file that contain them
};

// The result of one piece.
struct PieceRows {
  struct Error {
    int64_t line;
    std::string fault;
  };
  std::vector<int32_t> ids;     // all kept rows' tokens
  std::vector<uint8_t> labels;  // one byte each
  std::vector<int64_t> lengths;
  DatasetStats stats;
  int64_t rows = 0;          // read, kept or not
  int64_t cut_out_rows = 0;  // lost their last label to max_length
  size_t bytes = 0;
  std::vector<Error> errors;
};

// Keeps all samples of a row, or none if one of them has no label.
void Keep(absl::Span<TokenSample> samples, int64_t max_length,
          PieceRows& rows) {
  bool had_labels = true, has_labels = true, cut = false;
  for (TokenSample& sample : samples) {
    // Counted before truncation: a row that loses its last label to max_length
    // gets other advice than one that never had any.
    had_labels = had_labels && sample.label_tokens() > 0;
    base::CheckEqual(sample.input_ids.size(), sample.in_loss.size(),
                     "ids and labels of a sample");
    const size_t length = static_cast<size_t>(max_length);
    if (sample.input_ids.size() > length) {
      sample.input_ids.resize(length);
      sample.in_loss.resize(length);
      cut = true;
    }
    has_labels = has_labels && sample.label_tokens() > 0;
  }
  if (cut) ++rows.stats.truncated_rows;
  if (!has_labels) {
    ++rows.stats.dropped_rows;
    if (had_labels) ++rows.cut_out_rows;
    return;
  }
  ++rows.stats.rows;
  for (const TokenSample& s : samples) {
    rows.ids.insert(rows.ids.end(), s.input_ids.begin(), s.input_ids.end());
    rows.labels.insert(rows.labels.end(), s.in_loss.begin(), s.in_loss.end());
    rows.lengths.push_back(static_cast<int64_t>(s.input_ids.size()));
    rows.stats.tokens += rows.lengths.back();
    rows.stats.label_tokens += s.label_tokens();
  }
}

void TakeRow(int64_t line, absl::StatusOr<LanguageRow> row,
             const LanguageRowEncoder& encoder, const TokenizeOptions& options,
             PieceRows& rows) {
  ++rows.rows;
  absl::StatusOr<EncodedRow> encoded =
      row.ok() ? encoder.Encode(*std::move(row)) : row.status();
  if (!encoded.ok()) {
    rows.errors.push_back({line, std::string(encoded.status().message())});
    return;
  }
  if (!encoded->prompt_is_prefix) ++rows.stats.prompt_mismatch_rows;
  if (encoded->has_prompt) ++rows.stats.prompt_rows;
  TokenSample samples[] = {std::move(encoded->sample),
                           std::move(encoded->rejected)};
  Keep(absl::MakeSpan(samples, options.rows.preferences ? 2 : 1),
       options.max_length, rows);
}

// An empty cell counts as absent.
RowJson ObjectOf(const TableRow& row, const std::vector<std::string>& columns) {
  RowJson object = RowJson::object();
  for (size_t i = 0; i < columns.size(); ++i) {
    const RowJson& cell = row.cells[i];
    if (!cell.get_ref<const std::string&>().empty()) object[columns[i]] = cell;
  }
  return object;
}

PieceRows ReadPiece(const Piece& piece, const LanguageRowEncoder& encoder,
                    const TokenizeOptions& options) {
  PieceRows rows;
  rows.bytes = piece.bytes;
  rows.ids.reserve(piece.bytes / 2);
  rows.labels.reserve(piece.bytes / 2);
  for (const Record& record : piece.records) {
    if (rows.errors.size() >= RowErrors::kMax) break;
    TakeRow(record.line, ParseLanguageRow(record.text, options.rows), encoder,
            options, rows);
  }
  for (const TableRow& row : piece.rows) {
    if (rows.errors.size() >= RowErrors::kMax) break;
    TakeRow(row.line,
            ReadLanguageRow(ObjectOf(row, *piece.columns), "", options.rows),
            encoder, options, rows);
  }
  return rows;
}

// Whether the file is a table by its name, and not JSON all the same. Refuses
// the kinds that are not read.
absl::StatusOr<bool> IsTable(const std::string& name, std::string_view bytes) {
  const size_t first = bytes.find_first_not_of("\xEF\xBB\xBF \t\r\n");
  if (first != bytes.npos && (bytes[first] == '{' || bytes[first] == '[')) {
    return false;
  }
  RETURN_IF_ERROR(spec::CheckKindIsRead(name, bytes));
  const std::string extension =
      absl::AsciiStrToLower(std::filesystem::path(name).extension().string());
  if (extension == ".txt") {
    return absl::InvalidArgumentError(
        Cat(name,
            " is plain text, which mpsd does not read: write each text as a "
            "line {\"text\": \"…\"} of a file named .jsonl"));
  }
  return extension == ".csv" || extension == ".tsv";
}

class DatasetReader {
 public:
  DatasetReader(const TokenizeOptions& options,
                const text::Tokenizer& tokenizer,
                const text::ChatTemplate* chat_template,
                const std::function<void(double)>& progress)
      : options_(options),
        encoder_(tokenizer, chat_template,
                 {options.assistant_only_loss, options.completion_only_loss},
                 options.tables, options.max_length),
        progress_(progress),
        pool_(options.threads > 0 ? options.threads : WorkThreads(),
              [this](const Piece& piece) {
                return ReadPiece(piece, encoder_, options_);
              }) {}

  absl::StatusOr<TokenDataset> Read(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      ASSIGN_OR_RETURN(File file, base::MappedFile::Open(name));
      total_bytes_ += file->bytes().size();
      files_.push_back(std::move(file));
    }
    for (size_t i = 0; i < files_.size(); ++i) {
      RETURN_IF_ERROR(ReadFile(names[i], *files_[i]));
      files_[i].reset();
    }
    if (!errors_.empty()) return errors_.status();
    if (samples_.size() == 0) return NothingToLearn(names);
    if (progress_) progress_(1);
    return TokenDataset(std::move(samples_), options_, stats_,
                        hash_.FinishHex());
  }

 private:
  absl::Status ReadFile(const std::string& name, const base::MappedFile& file) {
    file_bytes_ = dropped_bytes_ = 0;
    ASSIGN_OR_RETURN(const bool table, IsTable(name, file.bytes()));
    return table ? ReadSeparated(name, file) : ReadJson(name, file);
  }

  absl::Status ReadJson(const std::string& name, const base::MappedFile& file) {
    const int64_t rows_before = rows_;
    const std::string_view bytes = file.bytes();
    RecordScanner records(bytes);
    // Why there are no more rows: OK at the end of the file, else the scanner's
    // error.
    std::optional<absl::Status> end;
    size_t at = 0;
    RETURN_IF_ERROR(ReadPieces(name, file, [&]() -> std::optional<Piece> {
      if (end) return std::nullopt;
      Piece piece = NextPiece(records, end);
      piece.bytes = (end ? bytes.size() : records.position()) - at;
      hash_.Update(bytes.substr(at, piece.bytes));
      at += piece.bytes;
      return piece;
    }));
    if (!end->ok()) {
      errors_.AddAt(name, std::string(end->message()));
      return errors_.status();
    }
    if (rows_ == rows_before) {
      return absl::InvalidArgumentError(
          Cat(name,
              ": the file has no rows; expected JSON lines with "
              "\"messages\", \"prompt\" and \"completion\", or \"text\""));
    }
    return absl::OkStatus();
  }

  absl::Status ReadSeparated(const std::string& name,
                             const base::MappedFile& file) {
    const size_t bytes = file.bytes().size();
    ASSIGN_OR_RETURN(Table table,
                     ReadTable(name, file.bytes(), /*glue_task=*/nullptr));
    hash_.Update(file.bytes());
    const auto columns =
        std::make_shared<const std::vector<std::string>>(table.columns);
    const size_t rows = table.rows.size();
    const size_t stride = std::max<size_t>(
        1, rows * std::min(kPiece, bytes / kPieces + 1) / bytes);
    size_t at = 0;
    return ReadPieces(name, file, [&]() -> std::optional<Piece> {
      if (at == rows) return std::nullopt;
      const size_t end = std::min(at + stride, rows);
      Piece piece;
      piece.columns = columns;
      piece.bytes = bytes * end / rows - bytes * at / rows;
      for (; at < end; ++at) piece.rows.push_back(std::move(table.rows[at]));
      return piece;
    });
  }

  // Tokenizes the pieces that `next` returns until it has no more.
  absl::Status ReadPieces(const std::string& name, const base::MappedFile& file,
                          const std::function<std::optional<Piece>()>& next) {
    bool more = true;
    while (more || !pool_.empty()) {
      if (!more || pool_.full()) {
        TakeRows(name, file);
        if (errors_.full()) return errors_.status();
        continue;
      }
      std::optional<Piece> piece = next();
      more = piece.has_value();
      if (more) pool_.Push(*std::move(piece));
    }
    return absl::OkStatus();
  }

  // About kPiece bytes of rows; sets `end` at the file's end or at a fault.
  Piece NextPiece(RecordScanner& records,
                  std::optional<absl::Status>& end) const {
    const size_t least = std::min(kPiece, total_bytes_ / kPieces + 1);
    const size_t limit = records.position() + least;
    Piece piece;
    while (records.position() < limit) {
      auto record = records.Next();
      if (!record.ok() || !*record) {
        end = record.status();
        break;
      }
      piece.records.push_back(**record);
    }
    return piece;
  }

  // Takes the result of the oldest piece. Only this thread adds rows, in the
  // pieces' order, so that the data set does not depend on the number of
  // threads.
  void TakeRows(const std::string& name, const base::MappedFile& file) {
    const PieceRows rows = pool_.Take();
    for (const PieceRows::Error& error : rows.errors) {
      errors_.Add(Cat(name, ":", error.line), error.fault);
    }
    rows_ += rows.rows;
    cut_out_rows_ += rows.cut_out_rows;
    Add(rows);
    done_bytes_ += rows.bytes;
    file_bytes_ += rows.bytes;
    while (file_bytes_ - dropped_bytes_ > 2 * kRead) {
      file.DropPages(dropped_bytes_, kRead);
      dropped_bytes_ += kRead;
    }
    ReportProgress();
  }

  void Add(const PieceRows& rows) {
    stats_.rows += rows.stats.rows;
    stats_.tokens += rows.stats.tokens;
    stats_.label_tokens += rows.stats.label_tokens;
    stats_.truncated_rows += rows.stats.truncated_rows;
    stats_.dropped_rows += rows.stats.dropped_rows;
    stats_.prompt_mismatch_rows += rows.stats.prompt_mismatch_rows;
    stats_.prompt_rows += rows.stats.prompt_rows;
    const int32_t* ids = rows.ids.data();
    const uint8_t* labels = rows.labels.data();
    for (const int64_t length : rows.lengths) {
      samples_.Add(ids, labels, length);
      ids += length;
      labels += length;
    }
    base::CheckEqual(ids - rows.ids.data(), rows.ids.size(),
                     "ids of all rows and of the piece");
    base::CheckEqual(labels - rows.labels.data(), rows.labels.size(),
                     "labels of all rows and of the piece");
  }

  double Share() const {
    return static_cast<double>(done_bytes_) / static_cast<double>(total_bytes_);
  }

  void ReportProgress() {
    if (!progress_) return;
    const int step = static_cast<int>(Share() * kProgressSteps);
    if (step == progress_step_) return;
    progress_step_ = step;
    progress_(Share());
  }

  absl::Status NothingToLearn(const std::vector<std::string>& names) const {
    std::string message =
        Cat(absl::StrJoin(names, ", "),
            ": there is nothing to learn: every label of all ", rows_,
            " rows is masked");
    if (cut_out_rows_ > 0) {
      message += Cat("; ", cut_out_rows_, " of them had labels only after the ",
                     options_.max_length,
                     " tokens of max_length: raise it or shorten the prompts");
    } else if (options_.assistant_only_loss.value_or(false)) {
      message +=
          "; assistant_only_loss found no assistant tokens: look at the roles "
          "and at the {% generation %} blocks of the chat template";
    } else {
      message += "; the rows have no completion, or a single token";
    }
    return absl::InvalidArgumentError(message);
  }

  const TokenizeOptions& options_;
  const LanguageRowEncoder encoder_;
  const std::function<void(double)>& progress_;
  base::Sha256 hash_;
  TokenArrays samples_;
  DatasetStats stats_;
  RowErrors errors_;
  int64_t rows_ = 0;          // read, kept or not
  int64_t cut_out_rows_ = 0;  // lost their last label to max_length
  size_t total_bytes_ = 0;
  size_t done_bytes_ = 0;
  int progress_step_ = -1;
  // Bytes of the current file whose rows were taken, and how many of these had
  // their pages dropped.
  size_t file_bytes_ = 0, dropped_bytes_ = 0;
  std::vector<File> files_;  // null once read
  // Declared last, so destroyed first: the pool's threads use the other members
  // until then.
  InOrder<Piece, PieceRows> pool_;
};

}  // namespace

int64_t TokenDataset::length(int64_t index) const {
  int64_t longest = 0;
  for (int64_t s = 0; s < sequences_; ++s) {
    longest = std::max(longest, samples_.length(index * sequences_ + s));
  }
  return longest;
}

int64_t TokenDataset::tokens(int64_t index) const {
  const int64_t last = (index + 1) * sequences_ - 1;
  return samples_.begin(last) + samples_.length(last) -
         samples_.begin(index * sequences_);
}

int64_t TokenDataset::label_tokens(int64_t index) const {
  int64_t labels = 0;
  for (int64_t s = 0; s < sequences_; ++s) {
    labels += samples_.marks(index * sequences_ + s);
  }
  return labels;
}

absl::StatusOr<Batch> TokenDataset::Collate(
    const std::vector<std::vector<int64_t>>& rows,
    const Collation& collation) const {
  if (sequences_ == 1) {
    return MakeBatch(samples_, rows, max_length_, pad_id_, collation.packed,
                     collation.padding);
  }
  std::vector<std::vector<int64_t>> each;
  for (int64_t s = 0; s < sequences_; ++s) {
    for (const auto& row : rows) each.push_back({row[0] * sequences_ + s});
  }
  Batch batch = MakeBatch(samples_, each, max_length_, pad_id_,
                          /*packed=*/false, collation.padding);
  batch.samples.clear();
  for (const auto& row : rows) batch.samples.push_back(row[0]);
  batch.loss_weight = static_cast<double>(rows.size());
  return batch;
}

absl::StatusOr<TokenDataset> LoadTokenDataset(
    const std::vector<std::string>& files, const TokenizeOptions& options,
    const text::Tokenizer& tokenizer, const text::ChatTemplate* chat_template,
    const std::function<void(double)>& progress) {
  if (files.empty()) {
    return absl::InvalidArgumentError("dataset: expected at least one file");
  }
  return DatasetReader(options, tokenizer, chat_template, progress).Read(files);
}

}  // namespace mpsd::data
