// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/batch.h"
#include "core/data/language_row.h"
#include "core/data/row_errors.h"
#include "core/data/source.h"
#include "core/data/token_arrays.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"

namespace mpsd::data {

struct TokenizeOptions {
  int64_t max_length;  // tokens; longer rows are cut at the end
  // As in training.*; absent means TRL's default, see LossOptions.
  std::optional<bool> assistant_only_loss = std::nullopt;
  std::optional<bool> completion_only_loss = std::nullopt;
  int32_t pad_id = 0;
  IdTables tables = {};  // rows beyond them are errors
  int threads = 0;       // for tokenizing; 0: WorkThreads()
  LanguageRowFormat rows = {};
  // Identifies the chat template and end token that the job provides: with the
  // model folder's files and these options they determine the tokens. For
  // TokenKey.
  std::string text_id = "";
};

// Rows of language modelling, tokenized, in file order. A row of preferences is
// two sequences: the prompt with the chosen and with the rejected answer.
class TokenDataset : public Source {
 public:
  // No sample is longer than options.max_length. With options.rows.preferences
  // the samples are pairs.
  TokenDataset(TokenArrays samples, const TokenizeOptions& options,
               DatasetStats stats, std::string hash)
      : samples_(std::move(samples)),
        max_length_(options.max_length),
        pad_id_(options.pad_id),
        sequences_(options.rows.preferences ? 2 : 1),
        stats_(stats),
        hash_(std::move(hash)) {}

  int64_t size() const override { return samples_.size() / sequences_; }
  int64_t sequences() const override { return sequences_; }
  int64_t length(int64_t index) const override;
  int64_t tokens(int64_t index) const override;
  // See MakeBatch. A batch of preferences has all chosen answers, then all
  // rejected ones.
  absl::StatusOr<Batch> Collate(const std::vector<std::vector<int64_t>>& rows,
                                const Collation& collation) const override;
  const DatasetStats& stats() const override { return stats_; }
  int64_t label_tokens(int64_t index) const override;
  // SHA-256 over the files' bytes, one file after the other.
  std::string hash() const override { return hash_; }
  std::string TokenDigest() const override { return samples_.Digest(); }

  const TokenArrays& samples() const { return samples_; }
  int32_t pad_id() const { return pad_id_; }
  TokenSample sample(int64_t index) const { return samples_.sample(index); }

 private:
  TokenArrays samples_;
  int64_t max_length_;
  int32_t pad_id_;
  int64_t sequences_;
  DatasetStats stats_;
  std::string hash_;
};

// Reads JSON Lines, or a file that is one JSON array: rows {"messages": […],
// "tools": […]?}, {"prompt": …, "completion": …} (strings or lists of
// messages), {"text": …} and the other forms that ParseLanguageRow reads; or
// CSV (.csv) and TSV (.tsv), as ReadTable does, whose columns are the names and
// whose empty cells are absent. A byte order mark, CRLF and blank lines are
// accepted. Rows without a label are dropped and counted. Neither the result
// nor the errors depend on the number of threads.
//
// InvalidArgument "<file>:<line>: <reason>, <what was expected>" for bad rows,
// at most five, one per line; for a file without rows; and, with the reason, if
// no row has a label left. NotFound and the like for files. Every data set has
// at least one sample.
//
// `chat_template` is null if the model has none. `progress` may be null; it is
// called occasionally, on this thread, with the share done, 0 to 1.
absl::StatusOr<TokenDataset> LoadTokenDataset(
    const std::vector<std::string>& files, const TokenizeOptions& options,
    const text::Tokenizer& tokenizer, const text::ChatTemplate* chat_template,
    const std::function<void(double)>& progress);

}  // namespace mpsd::data
