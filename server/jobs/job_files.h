// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_FILES_H_
#define MPSD_SERVER_JOBS_JOB_FILES_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/spec/model_config.h"
#include "server/jobs/job_manager.h"

namespace mpsd::jobs {

// The folder of a job and what the scheduler asks of the disk. One folder per
// job below STATE/jobs:
//
//   ID/job.json   the fully defaulted spec, paths of this machine
//   ID/inputs/    the uploaded files, links to their blobs
//   ID/input_names.json  how job.json spelled them, where it did otherwise
//   ID/out/       the worker's --out
//   ID/log        the worker's stderr and the daemon's lines about the job
//
// Thread-safe. DiskJobFiles is the real one; tests keep it in memory.
class JobFiles {
 public:
  struct Link {
    std::string relative;      // below inputs/, '/' between parts, no ".."
    std::string target;        // absolute
    std::string spelled = "";  // as job.json has it, for people
  };
  struct Model {
    std::string folder;  // absolute
    spec::ModelConfig config;
  };

  // Folders of this machine beneath which jobs may name files: models and
  // adapters, data, and chat templates beneath either.
  struct ReadFolders {
    std::vector<std::filesystem::path> models, data;
  };
  enum class Use { kModel, kData, kEither };

  explicit JobFiles(const std::filesystem::path& state_dir)
      : jobs_dir_(std::filesystem::absolute(state_dir) / "jobs") {}
  virtual ~JobFiles() = default;

  // Makes the folder with job.json and inputs/; durable when it returns OK, as
  // far as the links' targets are. Ends early, with nothing made, where nobody
  // wants it any more.
  virtual absl::Status Create(const std::string& job_id,
                              const std::string& spec_json,
                              const std::vector<Link>& links,
                              const Wanted& wanted) = 0;
  virtual void Remove(const std::string& job_id) = 0;
  // A deletion in its steps, as of deleted_folder.h: marked, then removed once
  // the row is gone (the bytes given back), or left as it is.
  virtual absl::Status BeginDelete(const std::string& job_id) = 0;
  virtual int64_t FinishDelete(const std::string& job_id) = 0;
  virtual void AbandonDelete(const std::string& job_id) = 0;
  // Gives back room on a full disk, so that a row can go; false: none left.
  virtual bool MakeRoom() = 0;
  // Appends "<time> mpsd: <line>" to the job's log.
  virtual void AppendLog(const std::string& job_id,
                         const std::string& line) = 0;
  // Whether this machine has such a file or folder.
  virtual bool Exists(const std::string& path) = 0;
  // FailedPrecondition, in the same words whether `path` exists or not, where
  // jobs may not name it for that use.
  virtual absl::Status MayRead(const std::string& path, Use use) = 0;
  // What is free on the file system of the state folder; nullopt where that
  // cannot be told.
  virtual std::optional<int64_t> FreeBytes() = 0;
  // spec::FindModelFolder, of what MayRead allows, and spec::ReadModelConfig
  // of what it finds. An id is looked for in the Hugging Face cache alone.
  virtual absl::StatusOr<Model> FindModel(const std::string& model) = 0;

  const std::filesystem::path& jobs_dir() const { return jobs_dir_; }
  std::string Folder(const std::string& job_id) const {
    return jobs_dir_ / job_id;
  }
  std::string SpecPath(const std::string& job_id) const {
    return jobs_dir_ / job_id / "job.json";
  }
  std::string InputPath(const std::string& job_id,
                        const std::string& relative) const {
    return jobs_dir_ / job_id / "inputs" / relative;
  }
  std::string OutputDir(const std::string& job_id) const {
    return jobs_dir_ / job_id / "out";
  }
  std::string LogPath(const std::string& job_id) const {
    return jobs_dir_ / job_id / "log";
  }

 private:
  const std::filesystem::path jobs_dir_;
};

class DiskJobFiles final : public JobFiles {
 public:
  // What lies in STATE/jobs, uploads and results, is no model but where
  // `folders` name a folder in it. The folders are looked up anew each time,
  // for those on a volume that comes and goes.
  explicit DiskJobFiles(const std::filesystem::path& state_dir,
                        ReadFolders folders = {{"/"}, {"/"}})
      : JobFiles(state_dir),
        jobs_dir_(std::filesystem::absolute(state_dir) / "jobs"),
        folders_(std::move(folders)) {}
  absl::Status Create(const std::string& job_id, const std::string& spec_json,
                      const std::vector<Link>& links,
                      const Wanted& wanted) override;
  void Remove(const std::string& job_id) override;
  absl::Status BeginDelete(const std::string& job_id) override;
  int64_t FinishDelete(const std::string& job_id) override;
  void AbandonDelete(const std::string& job_id) override;
  bool MakeRoom() override;
  void AppendLog(const std::string& job_id, const std::string& line) override;
  bool Exists(const std::string& path) override;
  absl::Status MayRead(const std::string& path, Use use) override;
  std::optional<int64_t> FreeBytes() override;
  absl::StatusOr<Model> FindModel(const std::string& model) override;

 private:
  bool IsAnotherJobs(const std::string& path) const;

  const std::filesystem::path jobs_dir_;
  const ReadFolders folders_;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_FILES_H_
