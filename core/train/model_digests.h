// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_MODEL_DIGESTS_H_
#define MPSD_CORE_TRAIN_MODEL_DIGESTS_H_

#include <atomic>
#include <filesystem>
#include <future>
#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace mpsd::train {

// File name → SHA-256.
using Digests = std::map<std::string, std::string>;

// The cache of digests in the cache folder.
inline constexpr char kModelDigestsFile[] = "model-digests.json";

// The digests of the files of a model folder that results depend on: config,
// weights, tokenizer, chat template, image processor. The file `cache` keeps
// digests by path, size and time. Another thread may set `stop` meanwhile:
// Cancelled.
absl::StatusOr<Digests> HashModel(const std::filesystem::path& model_folder,
                                  const std::filesystem::path& cache,
                                  const std::atomic<bool>& stop);

// Runs HashModel on its own thread while the run reads data and weights. If the
// cache has all digests, the thread instead asks the system to read the
// beginning of the weights, so that they are in memory when they are loaded.
class ModelDigests {
 public:
  ModelDigests(std::filesystem::path model_folder, std::filesystem::path cache);
  // Stops the thread, finished or not.
  ~ModelDigests();
  ModelDigests(const ModelDigests&) = delete;
  ModelDigests& operator=(const ModelDigests&) = delete;

  // Whether Get would return without waiting.
  bool done() const;

  // Waits for the thread; returns HashModel's result.
  absl::StatusOr<Digests> Get();

 private:
  std::atomic<bool> stop_{false};
  const std::shared_future<absl::StatusOr<Digests>> digests_;
};

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_MODEL_DIGESTS_H_
