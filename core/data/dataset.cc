// SPDX-License-Identifier: Apache-2.0
#include "core/data/dataset.h"

#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_join.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/data/encode.h"
#include "core/data/row.h"
#include "core/data/row_errors.h"
#include "core/spec/cat.h"

namespace mpsd::data {
namespace {

using spec::Cat;
using File = std::unique_ptr<base::MappedFile>;

constexpr int kProgressSteps = 200;

class DatasetReader {
 public:
  DatasetReader(const LoadOptions& options, const text::Tokenizer& tokenizer,
                const text::ChatTemplate* chat_template,
                const std::function<void(double)>& progress)
      : options_(options),
        encoder_(tokenizer, chat_template,
                 {options.assistant_only_loss, options.completion_only_loss}),
        progress_(progress) {}

  absl::StatusOr<Dataset> Read(const std::vector<std::string>& names) {
    std::vector<File> files;
    for (const std::string& name : names) {
      absl::StatusOr<File> file = base::MappedFile::Open(name);
      if (!file.ok()) return file.status();
      total_bytes_ += (*file)->bytes().size();
      files.push_back(*std::move(file));
    }
    for (size_t i = 0; i < files.size(); ++i) {
      const absl::Status status = ReadFile(names[i], files[i]->bytes());
      if (!status.ok()) return status;
    }
    if (!errors_.empty()) return errors_.status();
    if (samples_.empty()) return NothingToLearn(names);
    if (progress_) progress_(1);
    return Dataset(std::move(samples_), options_, stats_, hash_.FinishHex());
  }

 private:
  absl::Status ReadFile(const std::string& name, std::string_view bytes) {
    hash_.Update(bytes);
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (bytes.starts_with(kByteOrderMark)) {
      bytes.remove_prefix(kByteOrderMark.size());
      done_bytes_ += kByteOrderMark.size();
    }
    const int64_t rows_before = rows_;
    for (int64_t line = 1; !bytes.empty(); ++line) {
      const size_t end = std::min(bytes.find('\n'), bytes.size() - 1);
      ReadLine(name, line, bytes.substr(0, end + 1));
      if (errors_.full()) return errors_.status();
      bytes.remove_prefix(end + 1);
      done_bytes_ += end + 1;
      ReportProgress();
    }
    if (rows_ == rows_before) {
      return absl::InvalidArgumentError(
          Cat(name,
              ": the file has no rows; expected JSON lines with "
              "\"messages\", \"prompt\" and \"completion\", or \"text\""));
    }
    return absl::OkStatus();
  }

  void ReadLine(const std::string& name, int64_t line, std::string_view text) {
    if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return;
    ++rows_;
    absl::StatusOr<Row> row = ParseRow(text);
    absl::StatusOr<Encoded> encoded =
        row.ok() ? encoder_.Encode(*row) : row.status();
    if (!encoded.ok()) {
      errors_.Add(Cat(name, ":", line),
                  std::string(encoded.status().message()));
      return;
    }
    if (!encoded->prompt_is_prefix) ++stats_.prompt_mismatch_rows;
    Keep(std::move(encoded->sample));
  }

  void Keep(Sample sample) {
    const bool had_labels = sample.label_tokens() > 0;
    const size_t length = static_cast<size_t>(options_.max_length);
    if (sample.input_ids.size() > length) {
      sample.input_ids.resize(length);
      sample.in_loss.resize(length);
      sample.input_ids.shrink_to_fit();
      sample.in_loss.shrink_to_fit();
      ++stats_.truncated_rows;
    }
    const int64_t labels = sample.label_tokens();
    if (labels == 0) {
      ++stats_.dropped_rows;
      if (had_labels) ++cut_out_rows_;
      return;
    }
    ++stats_.rows;
    stats_.tokens += static_cast<int64_t>(sample.input_ids.size());
    stats_.label_tokens += labels;
    samples_.push_back(std::move(sample));
  }

  void ReportProgress() {
    if (!progress_) return;
    const double share =
        static_cast<double>(done_bytes_) / static_cast<double>(total_bytes_);
    const int step = static_cast<int>(share * kProgressSteps);
    if (step == progress_step_) return;
    progress_step_ = step;
    progress_(share);
  }

  absl::Status NothingToLearn(const std::vector<std::string>& names) const {
    std::string message =
        Cat(absl::StrJoin(names, ", "),
            ": there is nothing to learn: every label of all ", rows_,
            " rows is masked");
    if (cut_out_rows_ > 0) {
      message += Cat("; ", cut_out_rows_, " of them had labels behind the ",
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

  const LoadOptions& options_;
  const RowEncoder encoder_;
  const std::function<void(double)>& progress_;
  base::Sha256 hash_;
  std::vector<Sample> samples_;
  DatasetStats stats_;
  RowErrors errors_;
  int64_t rows_ = 0;          // read, kept or not
  int64_t cut_out_rows_ = 0;  // lost their last label to max_length
  size_t total_bytes_ = 0;
  size_t done_bytes_ = 0;
  int progress_step_ = -1;
};

}  // namespace

absl::StatusOr<Dataset> LoadDataset(
    const std::vector<std::string>& files, const LoadOptions& options,
    const text::Tokenizer& tokenizer, const text::ChatTemplate* chat_template,
    const std::function<void(double)>& progress) {
  if (files.empty()) {
    return absl::InvalidArgumentError("dataset: expected one file at least");
  }
  return DatasetReader(options, tokenizer, chat_template, progress).Read(files);
}

}  // namespace mpsd::data
