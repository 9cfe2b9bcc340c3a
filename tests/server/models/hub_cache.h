// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "core/spec/model_folder.h"
#include "tests/core/scratch_folder.h"
#include "tests/server/models/disk_blobs.h"

namespace mpsd::models {

// A Hugging Face cache that this process reads while the object lives.
class HubCache {
 public:
  explicit HubCache(fs::path path = FreshFolder("hub"))
      : path_(std::move(path)) {
    setenv("HF_HUB_CACHE", path_.c_str(), 1);
  }
  ~HubCache() { unsetenv("HF_HUB_CACHE"); }
  HubCache(const HubCache&) = delete;
  HubCache& operator=(const HubCache&) = delete;

  const fs::path& path() const { return path_; }

  // A snapshot in the cache's own layout: links to blobs, and refs/main.
  // Returns its folder.
  fs::path Put(const std::string& id, const std::string& commit,
               const std::string& tokenizer) {
    namespace fs = std::filesystem;
    const fs::path repository = path_ / spec::RepositoryName(id);
    const fs::path snapshot = repository / "snapshots" / commit;
    fs::create_directories(snapshot);
    fs::create_directories(repository / "blobs");
    fs::create_directories(repository / "refs");
    std::ofstream(repository / "blobs" / "1") << kTinyConfig;
    std::ofstream(repository / "blobs" / "2") << tokenizer;
    std::ofstream(repository / "refs" / "main") << commit;
    fs::create_symlink("../../blobs/1", snapshot / "config.json");
    fs::create_symlink("../../blobs/2", snapshot / "tokenizer.json");
    return snapshot;
  }

 private:
  const fs::path path_;
};

}  // namespace mpsd::models
