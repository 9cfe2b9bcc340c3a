// SPDX-License-Identifier: Apache-2.0
#include "server/worker_surroundings.h"

#include <filesystem>

#include "core/spec/model_folder.h"

namespace mpsd {

jobs::JobFiles::ReadFolders FoldersJobsRead(const Config& config) {
  jobs::JobFiles::ReadFolders folders{config.model_roots, config.data_roots};
  folders.models.push_back(spec::HubCacheFolder());
  return folders;
}

// An input is a symbolic link to its blob where the file system has no hard
// links, so a worker has to read the blob store too; and pushed models.
std::vector<std::string> FoldersWorkersRead(const Config& config) {
  const jobs::JobFiles::ReadFolders folders = FoldersJobsRead(config);
  std::vector<std::string> roots = {config.state_dir / "blobs",
                                    config.state_dir / "models"};
  for (const auto& some : {folders.models, folders.data}) {
    for (const std::filesystem::path& folder : some) {
      if (folder == "/") return {};
      roots.push_back(folder);
    }
  }
  return roots;
}

// The author of the table [environment] intends its variables for workers.
host::Environment WorkersEnvironment(const Config& config) {
  host::Environment environment =
      host::WithoutSecrets(host::CurrentEnvironment());
  for (const auto& [name, value] : config.environment) {
    environment.insert_or_assign(name, value);
  }
  return environment;
}

}  // namespace mpsd
