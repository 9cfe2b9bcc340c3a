// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_deletion.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <system_error>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "server/store/job.h"

namespace mpsd::jobs {

namespace fs = std::filesystem;

absl::StatusOr<FolderClaims::Use> FolderClaims::Take(std::set<std::string> ids,
                                                     const Watch* watch) {
  absl::MutexLock lock(&mutex_);
  for (const std::string& id : ids) {
    const auto removed = removed_.find(id);
    const bool went = watch != nullptr && removed != removed_.end() &&
                      removed->second > watch->since;
    if (!went && !removals_.contains(id)) continue;
    return absl::AbortedError(absl::StrCat("files of job ", id,
                                           (went ? " were" : " are being"),
                                           " removed meanwhile: try again"));
  }
  for (const std::string& id : ids) ++uses_[id];
  return Use{Claim([this, ids = std::move(ids)] { Release(ids); })};
}

absl::StatusOr<FolderClaims::Removal> FolderClaims::Remove(
    const std::string& id) {
  absl::MutexLock lock(&mutex_);
  if (uses_.contains(id)) {
    return absl::AbortedError(absl::StrCat(
        "job ", id,
        " is needed by what is being submitted or tried again: try "
        "again"));
  }
  if (!removals_.insert(id).second) {
    return absl::AbortedError(
        absl::StrCat("job ", id, " is being removed: try again"));
  }
  return Removal{Claim([this, id] { EndRemoval(id); })};
}

FolderClaims::Watch FolderClaims::Begin() {
  absl::MutexLock lock(&mutex_);
  ++watches_;
  return Watch{Claim([this] { EndWatch(); }), count_};
}

void FolderClaims::Release(const std::set<std::string>& ids) {
  absl::MutexLock lock(&mutex_);
  for (const std::string& id : ids) {
    const auto use = uses_.find(id);
    if (--use->second == 0) uses_.erase(use);
  }
}

void FolderClaims::EndRemoval(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  removals_.erase(id);
  if (watches_ > 0) removed_[id] = ++count_;
}

void FolderClaims::EndWatch() {
  absl::MutexLock lock(&mutex_);
  if (--watches_ == 0) removed_.clear();
}

fs::path BallastPath(const fs::path& jobs_dir) {
  return jobs_dir.parent_path() / "ballast";
}

int64_t KeepBallast(const fs::path& path, int64_t free_bytes) {
  std::error_code error;
  const uintmax_t found = fs::file_size(path, error);
  const int64_t kept = error ? 0 : static_cast<int64_t>(found);
  const int64_t wanted = std::min(kBallastBytes, free_bytes / 8);
  // A small one grows once the disk has room for its double.
  if (wanted < std::max(2 * kept, kLeastBallastBytes)) return kept;
  // Non-zero bytes, so that no file system leaves a hole. A file that a full
  // disk cut short still reserves its part.
  std::ofstream(path, std::ios::binary) << std::string(wanted, 'b');
  return std::max<int64_t>(fs::file_size(path, error), 0);
}

bool ThrowOffBallast(const fs::path& path) {
  std::error_code error;
  return fs::remove(path, error) && !error;
}

namespace {

constexpr char kMark[] = ".delete";

// The bytes of the files without another hard link.
int64_t OwnBytes(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code error;
  if (fs::is_symlink(folder, error)) return 0;
  for (fs::recursive_directory_iterator it(folder, error), end;
       !error && it != end; it.increment(error)) {
    std::error_code unreadable;
    if (it->is_symlink(unreadable) || !it->is_regular_file(unreadable)) {
      continue;
    }
    if (it->hard_link_count(unreadable) == 1 && !unreadable) {
      const auto size = static_cast<int64_t>(it->file_size(unreadable));
      if (!unreadable) bytes += size;
    }
  }
  return bytes;
}

}  // namespace

fs::path DeletionMark(const fs::path& folder) {
  return folder.parent_path() /
         absl::StrCat(".", folder.filename().string(), kMark);
}

fs::path MarkedFolder(const fs::path& path) {
  const std::string name = path.filename().string();
  // The name is a dot, an id and the mark.
  if (name.size() <= sizeof kMark || !name.starts_with(".") ||
      !name.ends_with(kMark)) {
    return {};
  }
  return path.parent_path() / name.substr(1, name.size() - sizeof kMark);
}

absl::Status MarkForDeletion(const fs::path& folder) {
  const fs::path mark = DeletionMark(folder);
  absl::Status status = base::WriteFileAtomic(mark, "");
  if (!absl::IsResourceExhausted(status)) return status;
  // A deletion must free space on a full disk: the mark is a second name of an
  // existing file, which takes no space.
  std::error_code error;
  fs::create_hard_link(folder / "job.json", mark, error);
  return error ? status
               : base::SyncPath(folder.parent_path(), O_RDONLY | O_DIRECTORY);
}

void UnmarkForDeletion(const fs::path& folder) {
  std::error_code ignored;
  fs::remove(DeletionMark(folder), ignored);
}

int64_t RemoveMarkedFolder(const fs::path& folder) {
  // Renames the folder first, so that a reader finds all of it or nothing.
  const fs::path aside = base::TemporaryBeside(folder);
  std::error_code error;
  fs::rename(folder, aside, error);
  const fs::path removed = error ? folder : aside;
  const int64_t bytes = OwnBytes(removed);
  fs::remove_all(removed, error);
  if (!error) UnmarkForDeletion(folder);
  return bytes;
}

absl::StatusOr<int64_t> RemoveCheckpointsOf(const fs::path& folder) {
  const fs::path out = folder / "out";
  const int fd =
      open(out.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return 0;
  if (fd < 0) return base::ErrnoStatus(errno, out.string());
  const fs::path aside = base::TemporaryBeside(folder);
  const int renamed = renameat(fd, "checkpoints", AT_FDCWD, aside.c_str());
  const int error = errno;
  close(fd);
  if (renamed != 0 && error == ENOENT) return 0;
  if (renamed != 0) {
    return base::ErrnoStatus(error, (out / "checkpoints").string());
  }
  const int64_t bytes = OwnBytes(aside);
  std::error_code failure;
  fs::remove_all(aside, failure);
  if (failure) return base::ErrnoStatus(failure.value(), aside.string());
  return bytes;
}

namespace {

// Whether `folder` is as Submit makes it, before a worker ran in it.
bool IsUntouched(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name != "job.json" && name != RequestFile::kFile && name != "inputs" &&
        name != InputNames::kFile) {
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
  ASSIGN_OR_RETURN(std::vector<std::string> ids, store.Ids());
  const std::unordered_set<std::string> rows(ids.begin(), ids.end());
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
      // The daemon was killed before the row was removed, so no caller knows
      // that the job is deleted.
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

absl::Status DeleteRow(JobStore& store, JobFiles& files,
                       const std::string& id) {
  absl::StatusOr<Job> job = store.Get(id);
  // A job with an unreadable row can be deleted; the store only reads the
  // state.
  if (!job.ok() && !absl::IsDataLoss(job.status())) return job.status();
  if (job.ok() && !IsFinal(job->state)) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", id, " is ", std::string(Name(job->state)),
                     ": cancel it (`mpsctl cancel ", id,
                     "`), and delete it once it has "
                     "ended"));
  }
  absl::Status status = files.BeginDelete(id);
  if (!status.ok()) return status;
  // The store checks the state again, within the transaction.
  status = files.WithRoom([&] { return store.Delete(id); });
  if (!status.ok()) files.AbandonDelete(id);
  return status;
}

void JobRemover::KeepRecord(const std::string& id) {
  if (!dependencies_.keep_record) return;
  const absl::Status kept = dependencies_.files.WithRoom(
      [&] { return dependencies_.keep_record(id); });
  if (kept.ok()) return;
  dependencies_.journal.Add(
      "", absl::StrCat("job ", id,
                       " is removed without a record: ", kept.message()));
}

absl::StatusOr<int64_t> JobRemover::Delete(const std::string& id) {
  return Remove(id, [] { return absl::OkStatus(); });
}

absl::Status JobRemover::MayDelete(const std::string& id) {
  RETURN_IF_ERROR(dependencies_.check_stored_end(id));
  return dependencies_.kept->MayDelete(id);
}

absl::StatusOr<int64_t> JobRemover::RemoveJob(const std::string& id,
                                              absl::Time ended) {
  return Remove(id, [&] { return dependencies_.kept->MayRemove(id, ended); });
}

absl::StatusOr<int64_t> JobRemover::Remove(
    const std::string& id, const std::function<absl::Status()>& may) {
  RETURN_IF_ERROR(dependencies_.check_stored_end(id));
  {
    // Two deletions may both read a job's row. The later one would find no row
    // to remove, and remove the mark that the first still needs.
    absl::MutexLock lock(&deletions_);
    ASSIGN_OR_RETURN(const FolderClaims::Removal removal, claims_.Remove(id));
    absl::Status status = may();
    if (status.ok()) {
      KeepRecord(id);
      status = DeleteRow(dependencies_.store, dependencies_.files, id);
    }
    if (!status.ok()) return status;
  }
  dependencies_.exported_metrics.JobDeleted(id);
  dependencies_.publish_counts();
  dependencies_.journal.Add("", absl::StrCat("job ", id, ": deleted"));
  dependencies_.journal.Write();
  dependencies_.hub.Wake(id);
  const int64_t freed = dependencies_.files.FinishDelete(id);
  if (dependencies_.folders != nullptr) dependencies_.folders->JobRemoved(id);
  return freed;
}

absl::StatusOr<int64_t> JobRemover::RemoveCheckpoints(const std::string& id,
                                                      absl::Time ended) {
  RETURN_IF_ERROR(dependencies_.check_stored_end(id));
  // Until the folder is removed the job cannot be deleted or retried: its
  // worker would read the checkpoints. Other jobs are deleted and started
  // meanwhile, however large the folder is.
  ASSIGN_OR_RETURN(const FolderClaims::Removal removal, claims_.Remove(id));
  KeptJobs& kept = *dependencies_.kept;
  RETURN_IF_ERROR(dependencies_.files.WithRoom(
      [&] { return kept.ForgetCheckpoints(id, ended); }));
  const absl::StatusOr<int64_t> freed =
      dependencies_.files.RemoveCheckpoints(id);
  if (!freed.ok()) return freed;
  if (dependencies_.folders != nullptr) {
    dependencies_.folders->CheckpointsRemoved(id);
  }
  dependencies_.journal.Add("",
                            absl::StrCat("job ", id, ": checkpoints removed"));
  dependencies_.journal.Write();
  dependencies_.hub.Wake(id);
  return freed;
}

absl::Status JobRemover::RemoveRun(const std::string& id) {
  absl::MutexLock lock(&deletions_);
  return RemoveRunLocked(id);
}

absl::Status JobRemover::RemoveRunLocked(const std::string& id) {
  absl::Status removed = dependencies_.files.RemoveRun(id);
  return removed.ok() ? dependencies_.store.ForgetCheckpoints(id) : removed;
}

absl::Status JobRemover::CheckIsNotNeeded(const Job& job) {
  if (job.pinned) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.id,
                     " is pinned, and its checkpoints and results with it: "
                     "`mpsctl set ",
                     job.id, " --unpin` releases them"));
  }
  return dependencies_.store.CheckUnused(job.id);
}

absl::StatusOr<Job> JobRemover::SetPinned(const std::string& id, bool pinned) {
  // Once a caller knows that a job is pinned, its files exist.
  ASSIGN_OR_RETURN(const FolderClaims::Use use, claims_.Take({id}, nullptr));
  RETURN_IF_ERROR(dependencies_.kept->SetPinned(id, pinned));
  dependencies_.hub.Wake(id);
  return dependencies_.store.Get(id);
}

}  // namespace mpsd::jobs
