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

// Whether mpsd uses this file of a model's folder: config.json, the weights in
// safetensors, a file of the tokenizer, of the image processor or of a chat
// template. `path` is relative to the folder; letters are ASCII. All other
// files (weights in other formats, documentation) are never read.
bool IsModelFile(const std::string& path);

// A trainable model's folder.
struct ModelFolder {
  ModelConfig config;
  // The weight files that jobs read; empty: the model can only be trained from
  // scratch.
  std::set<std::string> weights;
};

// Reads config.json and checks the weights: each file has a safetensors header
// and ends where the last tensor ends, and each file named in
// model.safetensors.index.json exists. Reads no tensor. Opens nothing outside
// `within`, if not null.
//   NOT_FOUND         no config.json.
//   UNIMPLEMENTED     an architecture that mpsd does not have.
//   INVALID_ARGUMENT  a broken config.json, index or weight file, naming the
//                     file and what to do.
absl::StatusOr<ModelFolder> ReadModelFolder(
    const std::filesystem::path& folder,
    const base::ReadRoots* within = nullptr);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_MODEL_FILES_H_
