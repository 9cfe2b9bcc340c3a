// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_HUB_CACHE_H_
#define MPSD_CORE_SPEC_HUB_CACHE_H_

#include <string>

#include "absl/status/statusor.h"

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

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_HUB_CACHE_H_
