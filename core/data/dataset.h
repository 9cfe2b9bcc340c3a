// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_DATASET_H_
#define MPSD_CORE_DATA_DATASET_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/sample.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"

namespace mpsd::data {

struct LoadOptions {
  int64_t max_length;  // tokens; longer rows are cut at the right
  // As in training.*; absent means TRL's default, see LossOptions.
  std::optional<bool> assistant_only_loss = std::nullopt;
  std::optional<bool> completion_only_loss = std::nullopt;
};

struct DatasetStats {
  int64_t rows = 0;            // kept
  int64_t tokens = 0;          // of the kept rows, as cut
  int64_t label_tokens = 0;    // of those
  int64_t truncated_rows = 0;  // cut to max_length, dropped ones too
  int64_t dropped_rows = 0;    // without any label (left)
  // Rows whose prompt alone is tokenized otherwise than within the row: the
  // model sees in use what it was not trained on.
  int64_t prompt_mismatch_rows = 0;
};

// The rows of one or more files, tokenized, in memory, in their order.
class Dataset {
 public:
  Dataset(std::vector<Sample> samples, DatasetStats stats, std::string hash)
      : samples_(std::move(samples)), stats_(stats), hash_(std::move(hash)) {}

  size_t size() const { return samples_.size(); }
  const Sample& sample(size_t index) const { return samples_[index]; }
  const DatasetStats& stats() const { return stats_; }
  // SHA-256 over the files' bytes, one after the other, in hexadecimal.
  std::string hash() const { return hash_; }

 private:
  std::vector<Sample> samples_;
  DatasetStats stats_;
  std::string hash_;
};

// Reads JSON Lines: rows {"messages": […], "tools": […]?}, {"prompt": …,
// "completion": …} (strings or lists of messages) or {"text": …}. A byte order
// mark, CRLF and blank lines are taken. Rows without a label are dropped and
// counted.
//
// InvalidArgument "<file>:<line>: <reason>, <what was expected>" for bad rows,
// up to five of them, one a line; for a file without rows; and where no row has
// a label left, with the reason. NotFound and the like for files. No data set
// has fewer than one sample.
//
// `chat_template` is null if the model has none. `progress` may be null; it is
// called now and then with the share done, 0 to 1.
absl::StatusOr<Dataset> LoadDataset(
    const std::vector<std::string>& files, const LoadOptions& options,
    const text::Tokenizer& tokenizer, const text::ChatTemplate* chat_template,
    const std::function<void(double)>& progress);

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_DATASET_H_
