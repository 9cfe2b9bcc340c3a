// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/atomic_file.h"
#include "core/base/file.h"
#include "core/base/printable.h"
#include "core/base/read_roots.h"
#include "core/base/sync.h"
#include "core/spec/hub_cache.h"
#include "core/spec/train_spec.h"
#include "server/jobs/ballast.h"
#include "server/jobs/deleted_folder.h"
#include "server/jobs/input_names.h"

namespace mpsd::jobs {
namespace fs = std::filesystem;
namespace {

// Makes a hard link, so that the file stays when the blob store drops its own
// name, and so that the store sees the use. A symbolic link where the file
// system has no hard links; a copy where the file has too many.
absl::Status LinkFile(const fs::path& target, const fs::path& link) {
  std::error_code error;
  fs::create_directories(link.parent_path(), error);
  if (error) {
    return base::ErrnoStatus(error.value(), link.parent_path().string());
  }
  fs::create_hard_link(target, link, error);
  if (error == std::errc::too_many_links) {
    fs::copy_file(target, link, error);
    if (!error) return base::SyncPath(link, O_RDONLY);
  } else if (error && error != std::errc::no_such_file_or_directory) {
    fs::create_symlink(target, link, error);
  }
  if (error) return base::ErrnoStatus(error.value(), link.string());
  return absl::OkStatus();
}

absl::Status WriteFile(const fs::path& path, const std::string& bytes) {
  absl::StatusOr<std::unique_ptr<base::AtomicFile>> file =
      base::AtomicFile::Create(path);
  if (!file.ok()) return file.status();
  absl::Status status = (*file)->Append(bytes);
  return status.ok() ? (*file)->CommitUnsynced() : status;
}

absl::Status FoldersBelow(const fs::path& folder,
                          std::vector<fs::path>& folders) {
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator();
       entry.increment(error)) {
    if (entry->is_directory() && !entry->is_symlink()) {
      folders.push_back(entry->path());
    }
  }
  if (error) return base::ErrnoStatus(error.value(), folder.string());
  return absl::OkStatus();
}

// The error for a link whose name is taken by an earlier link: this file system
// ignores case, or writes accents in one way only, and takes the two names for
// one.
absl::Status TwoInOne(const std::vector<JobFiles::Link>& links, size_t taken,
                      const fs::path& inputs) {
  const std::string& name = links[taken].relative;
  const std::string* other = nullptr;
  for (size_t i = 0; i < taken; ++i) {
    const std::string& earlier = links[i].relative;
    std::error_code ignored;
    // Two links to one blob collide as well; names that differ in case alone
    // are the likelier cause.
    if (absl::EqualsIgnoreCase(earlier, name)) {
      other = &earlier;
      break;
    }
    if (fs::equivalent(inputs / earlier, inputs / name, ignored)) {
      other = &earlier;
    }
  }
  if (other == nullptr) {
    return base::ErrnoStatus(EEXIST, (inputs / name).string());
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "inputs: '", *other, "' and '", name,
      "' are one name on the daemon's file system: rename one of the files"));
}

// Flushes the folders of the links; the targets are durable already.
absl::Status Stage(const fs::path& staging, const std::string& spec_json,
                   const std::vector<JobFiles::Link>& links,
                   const Wanted& wanted) {
  std::error_code error;
  fs::create_directories(staging, error);
  if (error) return base::ErrnoStatus(error.value(), staging.string());
  const fs::path inputs = staging / "inputs";
  for (size_t i = 0; i < links.size(); ++i) {
    absl::Status status = StillWanted(wanted);
    if (status.ok()) {
      status = LinkFile(links[i].target, inputs / links[i].relative);
      if (absl::IsAlreadyExists(status)) status = TwoInOne(links, i, inputs);
    }
    if (!status.ok()) return status;
  }
  std::vector<fs::path> flushed = {staging / "job.json", staging};
  absl::Status status = WriteFile(flushed.front(), spec_json + "\n");
  const std::string names = InputNames::Encode(links);
  if (status.ok() && !names.empty()) {
    status = WriteFile(staging / InputNames::kFile, names);
  }
  if (status.ok()) status = FoldersBelow(staging, flushed);
  if (status.ok()) status = StillWanted(wanted);
  return status.ok() ? base::SyncAll(flushed) : status;
}

}  // namespace

absl::Status DiskJobFiles::Create(const std::string& job_id,
                                  const std::string& spec_json,
                                  const std::vector<Link>& links,
                                  const Wanted& wanted) {
  const fs::path folder = Folder(job_id);
  const fs::path staging = base::TemporaryBeside(folder);
  std::vector<fs::path> above = {folder.parent_path()};
  // The look comes before Stage, which also makes STATE/jobs where it is
  // missing: the entry of a new folder is durable only after a flush of its
  // parent.
  if (!Exists(above.front())) above.push_back(above.front().parent_path());
  absl::Status status = Stage(staging, spec_json, links, wanted);
  std::error_code error;
  // Stage flushes before the rename, so a power cut leaves the whole folder or
  // a staged one, which the next start removes.
  if (status.ok()) fs::rename(staging, folder, error);
  if (error) status = base::ErrnoStatus(error.value(), folder.string());
  if (status.ok()) status = base::SyncAll(above);
  if (status.ok()) return status;
  fs::remove_all(staging, error);
  Remove(job_id);
  return status;
}

void DiskJobFiles::Remove(const std::string& job_id) {
  std::error_code ignored;
  fs::remove_all(Folder(job_id), ignored);
}

absl::Status DiskJobFiles::BeginDelete(const std::string& job_id) {
  return MarkForDeletion(Folder(job_id));
}

int64_t DiskJobFiles::FinishDelete(const std::string& job_id) {
  return RemoveMarkedFolder(Folder(job_id));
}

void DiskJobFiles::AbandonDelete(const std::string& job_id) {
  UnmarkForDeletion(Folder(job_id));
}

bool DiskJobFiles::MakeRoom() {
  return ThrowOffBallast(BallastPath(jobs_dir()));
}

void DiskJobFiles::AppendLog(const std::string& job_id,
                             const std::string& line) {
  const int fd = open(LogPath(job_id).c_str(),
                      O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  const std::string text = absl::StrCat(
      absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(),
                       absl::UTCTimeZone()),
      " mpsd: ", base::Indented(base::Printable(line, base::Breaks::kKeep)),
      "\n");
  // A log line for which the disk has no room is lost; the job goes on.
  [[maybe_unused]] ssize_t n = write(fd, text.data(), text.size());
  close(fd);
}

bool DiskJobFiles::Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool DiskJobFiles::IsAnotherJobs(const std::string& path) const {
  const base::ReadRoots jobs({jobs_dir_});
  if (!jobs.Contain(path)) return false;
  std::vector<fs::path> named;
  for (const fs::path& folder : folders_.models) {
    if (jobs.Contain(folder)) named.push_back(folder);
  }
  return !base::ReadRoots(named).Contain(path);
}

absl::Status DiskJobFiles::MayRead(const std::string& path, Use use) {
  std::vector<fs::path> folders;
  const auto add = [&](const std::vector<fs::path>& more) {
    folders.insert(folders.end(), more.begin(), more.end());
  };
  if (use != Use::kData) add(folders_.models);
  if (use != Use::kModel) add(folders_.data);
  const bool inside = base::ReadRoots(folders).Contain(path);
  if (inside && !(use == Use::kModel && IsAnotherJobs(path))) {
    return absl::OkStatus();
  }
  if (inside) {
    return absl::FailedPreconditionError(absl::StrCat(
        "'", path,
        "' is of a job, and no model for others: copy the model to "
        "another folder, or have mpsd started with --model-root for a folder "
        "in ",
        jobs_dir_.string()));
  }
  const auto name = [](std::string* out, const fs::path& folder) {
    out->append(folder.string());
  };
  return absl::FailedPreconditionError(absl::StrCat(
      "'", path, "' is not beneath a folder that jobs may read here (",
      folders.empty() ? "there is none" : absl::StrJoin(folders, ", ", name),
      "); upload it, as mpsctl does with data, or have mpsd started with ",
      use == Use::kData ? "--data-root" : "--model-root", " for its folder"));
}

std::optional<int64_t> DiskJobFiles::FreeBytes() {
  std::error_code error;
  const fs::space_info space = fs::space(jobs_dir_.parent_path(), error);
  if (error) return std::nullopt;
  return static_cast<int64_t>(space.available);
}

absl::StatusOr<JobFiles::Model> DiskJobFiles::FindModel(
    const std::string& model) {
  const bool named = fs::path(model).is_absolute();
  if (named) {
    if (absl::Status s = MayRead(model, Use::kModel); !s.ok()) return s;
  }
  absl::StatusOr<std::string> folder =
      named ? spec::FindModelFolder(model) : spec::FindInHubCache(model);
  if (!folder.ok()) return folder.status();
  // config.json may be a link that leaves the folder.
  absl::Status inside = MayRead(*folder + "/config.json", Use::kModel);
  if (!inside.ok()) return inside;
  absl::StatusOr<spec::ModelConfig> config = spec::ReadModelConfig(*folder);
  if (!config.ok()) return config.status();
  return Model{fs::absolute(*folder).lexically_normal(), *std::move(config)};
}

}  // namespace mpsd::jobs
