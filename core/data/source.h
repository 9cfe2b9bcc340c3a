// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/batch.h"

namespace mpsd::data {

// How samples are combined into a micro-batch.
struct Collation {
  bool packed = false;    // several samples per row
  bool training = false;  // images are cropped and mirrored at random
  uint64_t seed = 42;     // for these draws
  int64_t epoch = 0;
  Padding padding = Padding::kBuckets;
  // Pixels are in memory from which CUDA copies by itself.
  bool page_locked = false;
};

// Statistics of a data set for logs and run.json.
struct DatasetStats {
  int64_t rows = 0;            // kept rows
  int64_t tokens = 0;          // of the kept rows, as cut; 0 for images
  int64_t label_tokens = 0;    // labels among them (language models)
  int64_t truncated_rows = 0;  // cut to max_length, with dropped ones
  int64_t dropped_rows = 0;    // without any label (left)
  // Rows whose prompt has other tokens alone than within the row: when used,
  // the model then sees tokens that it was not trained on.
  int64_t prompt_mismatch_rows = 0;
  int64_t prompt_rows = 0;  // rows of prompt and completion
  bool operator==(const DatasetStats&) const = default;
};

// Warnings of rows of the set `what` that training loses, if they are more than
// 1 % of it: dropped for the reason `why`, or cut to `max_length` tokens.
std::vector<std::string> LostRows(const DatasetStats& stats,
                                  const std::string& what, const char* why,
                                  int64_t max_length);

// The samples of a data set, in order, from which a Loader makes micro-batches.
// Texts are in memory as tokens; images may be read when a batch needs them.
class Source {
 public:
  virtual ~Source() = default;

  virtual int64_t size() const = 0;
  // Tokens of a sample in a batch, for packing; 1 for images.
  virtual int64_t length(int64_t index) const = 0;
  // The sequences that a sample becomes, each a row of a batch; a sample's
  // length is that of the longest. All tokens of a sample.
  virtual int64_t sequences() const { return 1; }
  virtual int64_t tokens(int64_t index) const { return length(index); }
  // The batch whose row i has the samples rows[i], one after the other. Fails
  // only if a sample must be read now and cannot be read.
  virtual absl::StatusOr<Batch> Collate(
      const std::vector<std::vector<int64_t>>& rows,
      const Collation& collation) const = 0;
  // SHA-256 over the files read, in hexadecimal.
  virtual std::string hash() const = 0;
  // SHA-256 over the tokens and labels that training sees, by which a resumed
  // run knows its data; "" for images, which hash() and the processor's config
  // determine.
  virtual std::string TokenDigest() const { return ""; }
  virtual const DatasetStats& stats() const = 0;
  // What results call a sample besides its index: "cats/1.png", or "".
  virtual std::string name(int64_t /*index*/) const { return ""; }
  // Labels among a sample's tokens; 0 except for language modelling.
  virtual int64_t label_tokens(int64_t /*index*/) const { return 0; }
};

// Some samples of another source, in the given order. Batches number samples by
// their position in the subset.
class Subset : public Source {
 public:
  // `indices` into `base`, at least one.
  Subset(std::shared_ptr<const Source> base, std::vector<int64_t> indices);

  int64_t size() const override {
    return static_cast<int64_t>(indices_.size());
  }
  int64_t length(int64_t index) const override {
    return base_->length(indices_[index]);
  }
  int64_t sequences() const override { return base_->sequences(); }
  int64_t tokens(int64_t index) const override {
    return base_->tokens(indices_[index]);
  }
  absl::StatusOr<Batch> Collate(const std::vector<std::vector<int64_t>>& rows,
                                const Collation& collation) const override;
  // SHA-256 over the base's digest and the indices.
  std::string hash() const override { return OfThese(base_->hash()); }
  std::string TokenDigest() const override;
  // Rows, tokens and labels are those of the subset; truncated rows, dropped
  // rows and prompts those of the whole base.
  const DatasetStats& stats() const override { return stats_; }
  std::string name(int64_t index) const override {
    return base_->name(indices_[index]);
  }
  int64_t label_tokens(int64_t index) const override {
    return base_->label_tokens(indices_[index]);
  }

  const Source& base() const { return *base_; }
  // A sample's index in the base.
  int64_t base_index(int64_t index) const { return indices_[index]; }

 private:
  std::string OfThese(const std::string& digest_of_base) const;

  const std::shared_ptr<const Source> base_;
  const std::vector<int64_t> indices_;
  DatasetStats stats_;
};

// Preferences with the log-probabilities of their answers under the reference.
class Referenced : public Source {
 public:
  // `logps`: of each sample's chosen and rejected answer.
  Referenced(std::unique_ptr<Source> base, std::vector<float> logps)
      : base_(std::move(base)), logps_(std::move(logps)) {}

  int64_t size() const override { return base_->size(); }
  int64_t sequences() const override { return base_->sequences(); }
  int64_t length(int64_t index) const override { return base_->length(index); }
  int64_t tokens(int64_t index) const override { return base_->tokens(index); }
  absl::StatusOr<Batch> Collate(const std::vector<std::vector<int64_t>>& rows,
                                const Collation& collation) const override;
  std::string hash() const override { return base_->hash(); }
  // Covers the log-probabilities: a run resumes with the reference that it
  // began with.
  std::string TokenDigest() const override;
  const DatasetStats& stats() const override { return base_->stats(); }
  std::string name(int64_t index) const override { return base_->name(index); }
  int64_t label_tokens(int64_t index) const override {
    return base_->label_tokens(index);
  }

 private:
  const std::unique_ptr<Source> base_;
  const std::vector<float> logps_;
};

struct SplitIndices {
  std::vector<int64_t> train, validation;  // both ascending
};

// Takes round(share × count) samples for validation, at least one and not all:
// the first ones of ShuffledOrder(count, seed, 0), so that the split is the
// same on every platform and in every version. InvalidArgument for fewer than
// two samples. 0 < share < 1.
absl::StatusOr<SplitIndices> SplitForValidation(int64_t count, double share,
                                                uint64_t seed);

}  // namespace mpsd::data
