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
#include "core/data/dataset.h"

namespace mpsd::data {

// Tokenized data sets kept in a folder, a file each, by a key that says all
// they were made of. Several processes may use one folder.
class TokenCache {
 public:
  // Files of more than `max_bytes` together are dropped, those longest unused
  // first.
  TokenCache(std::filesystem::path folder, int64_t max_bytes)
      : folder_(std::move(folder)), max_bytes_(max_bytes) {}

  // The data set of `key` with these options; nothing where there is none.
  // DataLoss for a file that is broken.
  absl::StatusOr<std::optional<Dataset>> Find(const std::string& key,
                                              const LoadOptions& options) const;

  // Keeps it, whole or not at all; not where it is larger than all may be.
  absl::Status Put(const std::string& key, const Dataset& dataset) const;

  std::filesystem::path PathOf(const std::string& key) const;

 private:
  void DropOldest() const;

  const std::filesystem::path folder_;
  const int64_t max_bytes_;
};

// SHA-256 of what decides the tokens of `files`: their bytes, the files of the
// model folder that a tokenizer or chat template is read from, the options, and
// the version of this program.
absl::StatusOr<std::string> TokenKey(const std::vector<std::string>& files,
                                     const std::filesystem::path& model_folder,
                                     const LoadOptions& options);

// As LoadDataset with the tokenizer and template of `model_folder`; what
// `cache_folder` (empty: none) holds already is not tokenized again. A cache
// that cannot be read or written costs time and a call of `warn`, nothing else.
absl::StatusOr<Dataset> LoadCachedDataset(
    const std::vector<std::string>& files, const LoadOptions& options,
    const std::filesystem::path& model_folder, const text::Tokenizer& tokenizer,
    const text::ChatTemplate* chat_template,
    const std::filesystem::path& cache_folder,
    const std::function<void(double)>& progress,
    const std::function<void(const std::string&)>& warn);

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_TOKEN_CACHE_H_
