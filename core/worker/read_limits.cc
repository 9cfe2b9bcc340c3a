// SPDX-License-Identifier: Apache-2.0
#include "core/worker/read_limits.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/base/read_roots.h"
#include "core/data/shown.h"
#include "core/spec/train_spec.h"
#include "core/worker/run_job.h"

namespace mpsd::worker {
namespace {

namespace fs = std::filesystem;

// Compares names without resolving links: on a file system without hard links
// an uploaded file is a symbolic link to its blob.
bool IsBelow(const std::string& path, const fs::path& folder) {
  const fs::path normal = fs::path(path).lexically_normal();
  const auto [at, _] =
      std::mismatch(folder.begin(), folder.end(), normal.begin(), normal.end());
  return at == folder.end();
}

// A job that cannot be read counts as uploaded; reading it fails later.
bool UploadedWhole(const fs::path& spec_path) {
  const auto text = base::ReadFile(spec_path);
  if (!text.ok()) return true;
  const auto spec = spec::ParseTrainSpec(*text, spec_path.filename().string());
  if (!spec.ok()) return true;
  const fs::path inputs = spec_path.parent_path() / "inputs";
  const auto uploaded = [&](const std::vector<std::string>& paths) {
    return std::all_of(paths.begin(), paths.end(), [&](const std::string& p) {
      return IsBelow(p, inputs);
    });
  };
  return uploaded(spec->dataset.train) && uploaded(spec->dataset.eval) &&
         uploaded(spec->dataset.predict);
}

}  // namespace

void LimitToStart(const wire::Start& start) {
  // A job that may read any file still reads only regular files: a pipe would
  // never answer, and /dev/zero never end.
  std::vector<fs::path> roots = {"/"};
  if (!start.read_roots.empty()) {
    roots.assign(start.read_roots.begin(), start.read_roots.end());
    roots.push_back(CacheFolder());
  }
  base::LimitReads(base::ReadRoots(roots));
  data::ShowContents(UploadedWhole(start.spec_path));
}

}  // namespace mpsd::worker
