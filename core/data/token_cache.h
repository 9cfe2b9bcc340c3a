// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/data/token_dataset.h"

namespace mpsd::data {

// Keeps tokenized data sets in a folder, one file each, by a key that covers
// everything that determines their tokens. Processes may share a folder.
class TokenCache {
 public:
  // When the files together exceed `max_bytes`, the least recently used are
  // removed.
  explicit TokenCache(std::filesystem::path folder,
                      int64_t max_bytes = int64_t{4} << 30)
      : folder_(std::move(folder)), max_bytes_(max_bytes) {}

  // The data set of `key`, mapped from its file, with these options except
  // pad_id, which comes from the file; nullopt for an unknown key. DataLoss for
  // a broken file.
  absl::StatusOr<std::optional<TokenDataset>> Find(
      const std::string& key, const TokenizeOptions& options) const;

  // Stores the data set, completely or not at all; ignores one larger than
  // max_bytes. ResourceExhausted if the disk is full.
  absl::Status Put(const std::string& key, const TokenDataset& dataset) const;

  // `count` numbers that were computed from a data set, by a key of their own;
  // nullopt if they are not there or broken.
  std::optional<std::vector<float>> FindNumbers(const std::string& key,
                                                size_t count) const;
  absl::Status PutNumbers(const std::string& key,
                          const std::vector<float>& numbers) const;

  std::filesystem::path PathOf(const std::string& key) const;

 private:
  void DropOldest() const;

  const std::filesystem::path folder_;
  const int64_t max_bytes_;
};

// SHA-256 of everything that determines the tokens of `files`: their bytes, the
// files of the model folder from which a tokenizer or chat template is read
// (they determine pad_id too), the options, and the version of this program.
absl::StatusOr<std::string> TokenKey(const std::vector<std::string>& files,
                                     const std::filesystem::path& model_folder,
                                     const TokenizeOptions& options);

// The data set that LoadTokenDataset makes of the files, with the tokenizer and
// the template of `model_folder`. A data set that is already in `cache_folder`
// (empty: no cache) is mapped instead: it takes no memory other than the
// system's file cache. A cache that cannot be read or written costs only time
// and a call of `warn`. options.pad_id is ignored.
absl::StatusOr<TokenDataset> LoadCachedTokens(
    const std::vector<std::string>& files, const TokenizeOptions& options,
    const std::filesystem::path& model_folder,
    const std::filesystem::path& cache_folder,
    const std::function<absl::StatusOr<TokenDataset>()>& load,
    const std::function<void(const std::string&)>& warn);

}  // namespace mpsd::data
