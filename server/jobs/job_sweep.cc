// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_sweep.h"

#include <set>
#include <system_error>
#include <unordered_set>

#include "core/base/atomic_file.h"
#include "core/base/file.h"
#include "server/jobs/deleted_folder.h"
#include "server/jobs/input_names.h"
#include "server/jobs/job_id.h"

namespace mpsd::jobs {
namespace fs = std::filesystem;
namespace {

// Whether `folder` is as Submit makes it, before a worker ran in it.
bool IsUntouched(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name != "job.json" && name != "inputs" && name != InputNames::kFile) {
      return false;
    }
  }
  return !error;
}

bool IsOlder(const fs::path& folder, absl::Duration grace) {
  std::error_code error;
  const auto changed = fs::last_write_time(folder, error);
  return !error && fs::file_time_type::clock::now() - changed >
                       absl::ToChronoNanoseconds(grace);
}

}  // namespace

absl::StatusOr<Leftovers> FindLeftovers(const fs::path& jobs_dir,
                                        JobStore& store, absl::Duration grace) {
  absl::StatusOr<std::vector<std::string>> ids = store.Ids();
  if (!ids.ok()) return ids.status();
  const std::unordered_set<std::string> rows(ids->begin(), ids->end());
  Leftovers found;
  std::set<std::string> without_row;
  std::vector<fs::path> marks;
  std::error_code error;
  fs::directory_iterator entry(jobs_dir, error), end;
  if (error == std::errc::no_such_file_or_directory) return found;
  for (; !error && entry != end; entry.increment(error)) {
    const fs::path& path = entry->path();
    const std::string name = path.filename().string();
    if (base::IsUnfinished(path)) {
      found.garbage.push_back(path);
    } else if (!MarkedFolder(path).empty()) {
      marks.push_back(path);
    } else if (IsJobId(name) && !rows.contains(name)) {
      without_row.insert(name);
    }
  }
  if (error) return base::ErrnoStatus(error.value(), jobs_dir.string());
  for (const fs::path& mark : marks) {
    const std::string id = MarkedFolder(mark).filename().string();
    if (rows.contains(id)) {
      // The daemon was killed before the row went, so nobody was told that the
      // job is deleted.
      UnmarkForDeletion(jobs_dir / id);
      continue;
    }
    if (without_row.erase(id) > 0) found.garbage.push_back(jobs_dir / id);
    found.garbage.push_back(mark);
  }
  for (const std::string& id : without_row) {
    const fs::path folder = jobs_dir / id;
    if (!IsUntouched(folder)) {
      found.unknown.push_back(id);
    } else if (IsOlder(folder, grace)) {
      found.garbage.push_back(folder);
    }
  }
  return found;
}

void RemoveLeftovers(const std::vector<fs::path>& garbage) {
  std::error_code error;
  for (const fs::path& path : garbage) {
    const fs::path folder = MarkedFolder(path);
    // A mark outlives a folder that could not be removed.
    if (!folder.empty() && fs::exists(folder, error)) continue;
    fs::remove_all(path, error);
  }
}

}  // namespace mpsd::jobs
