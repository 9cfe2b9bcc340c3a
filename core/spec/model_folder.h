// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/file.h"
#include "core/spec/model_config.h"

// Folders of models: in the Hugging Face cache, pushed to mpsd, or anywhere.
namespace mpsd::spec {

// The Hugging Face cache from this process's environment, by the rules of
// FindModelFolder (train_spec.h); the folder need not exist.
std::string HubCacheFolder();

// The name of a model id's folder in that cache ("org/name":
// "models--org--name"), and the id of such a folder; "" for any other folder.
std::string RepositoryName(const std::string& id);
std::string IdOfRepository(const std::string& folder_name);

// Where mpsd stores the files of a pushed model.
std::string PushedFolder(const std::string& models_dir, const std::string& id,
                         const std::string& revision);

// Whether `id`, without a revision, names the model in `folder`, which is a
// snapshot of a Hugging Face cache or a PushedFolder.
bool Names(const std::string& id, const std::string& folder);

// A job.json name of a model in that cache: "org/name@REVISION", a ref's name
// or a commit; without the '@' the revision is main.
struct HubName {
  std::string id, revision;
};
HubName ParseHubName(const std::string& model);

// The snapshot of a HubName in that cache; NotFound as from FindModelFolder. A
// local folder of the same name is ignored.
absl::StatusOr<std::string> FindInHubCache(const std::string& model);

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
