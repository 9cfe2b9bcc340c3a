// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/spec/train_spec.h"

namespace mpsd::jobs {
namespace fs = std::filesystem;
namespace {

// A hard link, so that the file stays when the blob store drops its name; a
// symbolic one where the file system has none.
absl::Status LinkFile(const fs::path& target, const fs::path& link) {
  std::error_code error;
  fs::create_directories(link.parent_path(), error);
  if (error) {
    return base::ErrnoStatus(error.value(), link.parent_path().string());
  }
  fs::create_hard_link(target, link, error);
  if (error) fs::create_symlink(target, link, error);
  if (error) return base::ErrnoStatus(error.value(), link.string());
  return absl::OkStatus();
}

}  // namespace

absl::Status DiskJobFiles::Create(const std::string& job_id,
                                  const std::string& spec_json,
                                  const std::vector<Link>& links) {
  absl::StatusOr<base::StagedFolder> folder =
      base::StagedFolder::Create(Folder(job_id));
  if (!folder.ok()) return folder.status();
  for (const Link& link : links) {
    absl::Status linked =
        LinkFile(link.target, folder->staging() / "inputs" / link.relative);
    if (!linked.ok()) return linked;
  }
  absl::Status written =
      base::WriteFileAtomic(folder->staging() / "job.json", spec_json + "\n");
  if (!written.ok()) return written;
  return folder->Commit();
}

void DiskJobFiles::Remove(const std::string& job_id) {
  std::error_code ignored;
  fs::remove_all(Folder(job_id), ignored);
}

void DiskJobFiles::AppendLog(const std::string& job_id,
                             const std::string& line) {
  const int fd = open(LogPath(job_id).c_str(),
                      O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  const std::string text =
      absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(),
                                    absl::UTCTimeZone()),
                   " mpsd: ", line, "\n");
  // A log line that does not fit on the disk is lost, the job goes on.
  [[maybe_unused]] ssize_t n = write(fd, text.data(), text.size());
  close(fd);
}

bool DiskJobFiles::Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

absl::StatusOr<JobFiles::Model> DiskJobFiles::FindModel(
    const std::string& model) {
  absl::StatusOr<std::string> folder = spec::FindModelFolder(model);
  if (!folder.ok()) return folder.status();
  absl::StatusOr<spec::ModelConfig> config = spec::ReadModelConfig(*folder);
  if (!config.ok()) return config.status();
  return Model{fs::absolute(*folder).lexically_normal(), *std::move(config)};
}

}  // namespace mpsd::jobs
