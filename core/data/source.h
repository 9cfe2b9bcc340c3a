// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_SOURCE_H_
#define MPSD_CORE_DATA_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/batch.h"

namespace mpsd::data {

// How samples become a micro-batch.
struct Collation {
  bool packed = false;    // several samples a row
  bool training = false;  // images are cut and mirrored at random
  uint64_t seed = 42;     // with the epoch and the sample: those draws
  int64_t epoch = 0;
  Padding padding = Padding::kBuckets;
};

// What is worth saying of a data set; also in run.json.
struct DatasetStats {
  int64_t rows = 0;            // kept
  int64_t tokens = 0;          // of the kept rows, as cut; 0 for images
  int64_t label_tokens = 0;    // of those, in language modelling
  int64_t truncated_rows = 0;  // cut to max_length, dropped ones too
  int64_t dropped_rows = 0;    // without any label (left)
  // Rows whose prompt alone is tokenized otherwise than within the row: the
  // model sees in use what it was not trained on.
  int64_t prompt_mismatch_rows = 0;
  int64_t prompt_rows = 0;  // of a prompt and its completion
  bool operator==(const DatasetStats&) const = default;
};

// The samples of a data set, in their order: what a Loader makes micro-batches
// of. Texts are in memory as tokens; images may be read when asked for.
class Source {
 public:
  virtual ~Source() = default;

  virtual int64_t size() const = 0;
  // Tokens of a sample as it will be in a batch, for packing; 1 for images.
  virtual int64_t length(int64_t index) const = 0;
  // The batch whose row i holds the samples rows[i], one after the other. An
  // error only for what is read when asked for and cannot be.
  virtual absl::StatusOr<Batch> Collate(
      const std::vector<std::vector<int64_t>>& rows,
      const Collation& collation) const = 0;
  // SHA-256 over what was read, in hexadecimal.
  virtual std::string hash() const = 0;
  virtual const DatasetStats& stats() const = 0;
};

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_SOURCE_H_
