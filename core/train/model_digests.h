// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_MODEL_DIGESTS_H_
#define MPSD_CORE_TRAIN_MODEL_DIGESTS_H_

#include <atomic>
#include <filesystem>
#include <map>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace mpsd::train {

// File name → SHA-256.
using Digests = std::map<std::string, std::string>;

// Of the files of a model folder that decide numbers: config, weights,
// tokenizer, chat template, image processor. Digests are kept in the file
// `cache` by path, size and time. `stop` may turn true meanwhile: Cancelled.
absl::StatusOr<Digests> HashModel(const std::filesystem::path& model_folder,
                                  const std::filesystem::path& cache,
                                  const std::atomic<bool>& stop);

// HashModel on a thread of its own, while data are read and weights are loaded.
// Where the digests are known it reads the weights' beginning ahead instead, so
// that they are in memory when they are asked for.
class ModelDigests {
 public:
  ModelDigests(std::filesystem::path model_folder, std::filesystem::path cache);
  // Gives up what is not done.
  ~ModelDigests();
  ModelDigests(const ModelDigests&) = delete;
  ModelDigests& operator=(const ModelDigests&) = delete;

  // Whether Get would give its answer at once.
  bool done() const;

  // As HashModel, when it is done.
  absl::StatusOr<Digests> Get();

 private:
  void Run(const std::filesystem::path& model_folder,
           const std::filesystem::path& cache);

  std::atomic<bool> stop_{false};
  mutable absl::Mutex mutex_;
  absl::StatusOr<Digests> digests_ ABSL_GUARDED_BY(mutex_);
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_MODEL_DIGESTS_H_
