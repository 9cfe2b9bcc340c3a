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

  // The data set of `key` with these options but pad_id, left in its file;
  // nothing where there is none. DataLoss for a file that is broken.
  absl::StatusOr<std::optional<Dataset>> Find(const std::string& key,
                                              const LoadOptions& options) const;

  // Keeps it, whole or not at all; not where it is larger than all may be.
  // ResourceExhausted where the disk has not as much to spare.
  absl::Status Put(const std::string& key, const Dataset& dataset) const;

  std::filesystem::path PathOf(const std::string& key) const;

 private:
  void DropOldest() const;

  const std::filesystem::path folder_;
  const int64_t max_bytes_;
};

// SHA-256 of what decides the tokens of `files`: their bytes, the files of the
// model folder that a tokenizer or chat template is read from (pad_id is of
// those), the options, and the version of this program.
absl::StatusOr<std::string> TokenKey(const std::vector<std::string>& files,
                                     const std::filesystem::path& model_folder,
                                     const LoadOptions& options);

// What `load` makes of the files, by LoadDataset with the tokenizer and the
// template of `model_folder`. What `cache_folder` (empty: none) holds already
// is not loaded again, and takes no memory beside the system's cache of files.
// A cache that cannot be read or written costs time and a call of `warn`,
// nothing else. options.pad_id may be any.
absl::StatusOr<Dataset> LoadCachedDataset(
    const std::vector<std::string>& files, const LoadOptions& options,
    const std::filesystem::path& model_folder,
    const std::filesystem::path& cache_folder,
    const std::function<absl::StatusOr<Dataset>()>& load,
    const std::function<void(const std::string&)>& warn);

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_TOKEN_CACHE_H_
