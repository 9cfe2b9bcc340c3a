// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_TOKEN_CACHE_H_
#define MPSD_CORE_DATA_TOKEN_CACHE_H_

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
// all that decides their tokens. Several processes may use one folder.
class TokenCache {
 public:
  // Once the files together exceed `max_bytes`, the longest unused ones are
  // removed.
  TokenCache(std::filesystem::path folder, int64_t max_bytes)
      : folder_(std::move(folder)), max_bytes_(max_bytes) {}

  // The data set of `key`, mapped from its file, with these options except
  // pad_id, which the file gives; nullopt for an unknown key. DataLoss for a
  // broken file.
  absl::StatusOr<std::optional<TokenDataset>> Find(
      const std::string& key, const TokenizeOptions& options) const;

  // Keeps the data set, whole or not at all; ignores one larger than max_bytes.
  // ResourceExhausted where the disk lacks the space.
  absl::Status Put(const std::string& key, const TokenDataset& dataset) const;

  std::filesystem::path PathOf(const std::string& key) const;

 private:
  void DropOldest() const;

  const std::filesystem::path folder_;
  const int64_t max_bytes_;
};

// SHA-256 of everything that decides the tokens of `files`: their bytes, the
// files of the model folder from which a tokenizer or chat template is read
// (they decide pad_id too), the options, and the version of this program.
absl::StatusOr<std::string> TokenKey(const std::vector<std::string>& files,
                                     const std::filesystem::path& model_folder,
                                     const TokenizeOptions& options);

// The data set that `load` makes of the files by LoadTokenDataset, with the
// tokenizer and the template of `model_folder`. A data set that `cache_folder`
// (empty: no cache) already holds is mapped instead: it takes no memory beside
// the system's file cache. A cache that cannot be read or written costs only
// time and a call of `warn`. options.pad_id is ignored.
absl::StatusOr<TokenDataset> LoadCachedTokens(
    const std::vector<std::string>& files, const TokenizeOptions& options,
    const std::filesystem::path& model_folder,
    const std::filesystem::path& cache_folder,
    const std::function<absl::StatusOr<TokenDataset>()>& load,
    const std::function<void(const std::string&)>& warn);

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_TOKEN_CACHE_H_
