// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_MODEL_FILES_H_
#define MPSD_CORE_SPEC_MODEL_FILES_H_

#include <filesystem>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/read_roots.h"
#include "core/spec/model_config.h"

namespace mpsd::spec {

// Whether a model's folder holds this file for mpsd: config.json, the weights
// in safetensors, a file of the tokenizer, of the image processor or of a chat
// template. `path` is relative to the folder; letters are ASCII. Whatever else
// lies there (weights in other formats, texts for people) is never read.
bool IsModelFile(const std::string& path);

// A model's folder that can be trained.
struct ModelFolder {
  ModelConfig config;
  // The files of the weights that jobs read; empty: the model is for training
  // from scratch alone.
  std::set<std::string> weights;
};

// Reads config.json and looks at the weights: each file has a safetensors
// header and ends where the last tensor ends, and each file that
// model.safetensors.index.json names is there. No tensor is read. Opens nothing
// outside of `within`, where that is not null.
//   NOT_FOUND         no config.json.
//   UNIMPLEMENTED     an architecture that mpsd does not have.
//   INVALID_ARGUMENT  a broken config.json, index or file of weights, naming
//                     the file and what to do.
absl::StatusOr<ModelFolder> ReadModelFolder(
    const std::filesystem::path& folder,
    const base::ReadRoots* within = nullptr);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_MODEL_FILES_H_
