// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_FILES_H_
#define MPSD_SERVER_JOBS_JOB_FILES_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/spec/model_config.h"
#include "server/jobs/job_manager.h"

namespace mpsd::jobs {

// Finds the models that users pushed to this daemon; implemented by
// server/models. Thread-safe.
class ModelFinder {
 public:
  struct Found {
    std::string folder;  // absolute
    // While it exists the folder is kept.
    std::shared_ptr<const void> lease;
  };

  virtual ~ModelFinder() = default;
  // nullopt where no model has this name.
  virtual std::optional<Found> Find(const std::string& name) = 0;
  // A name that differs from `name` only in case, human-readable; "" if there
  // is none.
  virtual std::string Alike(const std::string& name) = 0;
};

// The folders of jobs, and the scheduler's questions about the disk. One folder
// per job below STATE/jobs:
//
//   ID/job.json   the fully defaulted spec, paths of this machine
//   ID/request.json  the request that made the job
//   ID/inputs/    the uploaded files, links to their blobs
//   ID/input_names.json  how job.json spelled them, where it did otherwise
//   ID/out/       the worker's --out
//   ID/log        the worker's stderr and the daemon's lines about the job
//
// Thread-safe. DiskJobFiles is the implementation on a disk; tests keep the
// files in memory.
class JobFiles {
 public:
  struct Link {
    std::string relative;  // relative to inputs/, '/' between parts, no ".."
    std::string target;    // absolute
    std::string spelled = "";  // the path in job.json, human-readable
  };
  struct Model {
    std::string folder;  // absolute
    spec::ModelConfig config;
    // While it exists a pushed model is kept; null for other folders.
    std::shared_ptr<const void> lease = nullptr;
  };

  // Folders of this machine below which jobs may name files: models and
  // adapters below `models`, data below `data`, and chat templates below
  // either.
  struct ReadFolders {
    std::vector<std::filesystem::path> models, data;
  };
  enum class Use { kModel, kData, kEither };

  explicit JobFiles(const std::filesystem::path& state_dir)
      : jobs_dir_(std::filesystem::absolute(state_dir) / "jobs") {}
  virtual ~JobFiles() = default;

  // Makes the folder with job.json, request.json and inputs/. Once Create
  // returns OK the folder is durable, provided that the targets of the links
  // are. Create ends early and leaves nothing behind when `wanted` says that no
  // caller waits any more.
  virtual absl::Status Create(const std::string& job_id,
                              const std::string& spec_json,
                              const std::string& request_json,
                              const std::vector<Link>& links,
                              const Wanted& wanted) = 0;
  // Replaces job.json; durable once it returns OK.
  virtual absl::Status ReplaceSpec(const std::string& job_id,
                                   const std::string& spec_json) = 0;
  virtual void Remove(const std::string& job_id) = 0;
  // The steps of a deletion (job_deletion.h): mark the folder; remove the
  // folder once the row is removed, returning the bytes freed; or remove the
  // mark.
  virtual absl::Status BeginDelete(const std::string& job_id) = 0;
  virtual int64_t FinishDelete(const std::string& job_id) = 0;
  virtual void AbandonDelete(const std::string& job_id) = 0;
  // Removes what the worker wrote into OutputDir, if anything. If it fails, a
  // part may be left.
  virtual absl::Status RemoveRun(const std::string& job_id) = 0;
  // Removes the checkpoints below OutputDir, atomically for readers, and
  // returns the bytes freed; 0 if there are none.
  virtual absl::StatusOr<int64_t> RemoveCheckpoints(
      const std::string& job_id) = 0;
  // Frees space on a full disk, so that a row can be deleted; false if nothing
  // was left to free.
  virtual bool MakeRoom() = 0;
  // Appends "<time> mpsd: <line>" to the job's log.
  virtual void AppendLog(const std::string& job_id,
                         const std::string& line) = 0;
  // Whether this machine has a file or folder at `path`.
  virtual bool Exists(const std::string& path) = 0;
  // FailedPrecondition if jobs may not name `path` for `use`, with the same
  // message whether `path` exists or not.
  virtual absl::Status MayRead(const std::string& path, Use use) = 0;
  // The free bytes of the state folder's file system; nullopt if unknown.
  virtual std::optional<int64_t> FreeBytes() = 0;
  // Finds a model with spec::FindModelFolder among the folders that MayRead
  // allows, and reads its config with spec::ReadModelConfig. An id is looked up
  // among the pushed models, then in the Hugging Face cache. NotFound says how
  // this machine gets the model.
  virtual absl::StatusOr<Model> FindModel(const std::string& model) = 0;
  // The model in `folder`, the result of a job, though MayRead allows no path
  // in STATE/jobs as a model.
  virtual absl::StatusOr<Model> ReadResult(const std::string& folder) = 0;
  // The id of the job whose folder contains `path`, links followed; of a path
  // that does not exist, by its name; "" for a path in no job's folder.
  virtual std::string JobAt(const std::string& path) = 0;

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
  // A path in STATE/jobs (uploads and results) is not a model unless `folders`
  // name a folder in STATE/jobs; nothing else in STATE (the database, keys,
  // everyone's uploads) can be named unless `folders` name a folder there. The
  // folders are resolved again at each call, because their volume may appear
  // and disappear.
  // `pushed`, which must outlive the object, finds the models that users
  // pushed; null: pushing is off.
  explicit DiskJobFiles(const std::filesystem::path& state_dir,
                        ReadFolders folders = {{"/"}, {"/"}},
                        ModelFinder* pushed = nullptr)
      : JobFiles(state_dir),
        state_dir_(std::filesystem::absolute(state_dir)),
        jobs_dir_(state_dir_ / "jobs"),
        folders_(std::move(folders)),
        pushed_(pushed) {}
  absl::Status Create(const std::string& job_id, const std::string& spec_json,
                      const std::string& request_json,
                      const std::vector<Link>& links,
                      const Wanted& wanted) override;
  absl::Status ReplaceSpec(const std::string& job_id,
                           const std::string& spec_json) override;
  void Remove(const std::string& job_id) override;
  absl::Status BeginDelete(const std::string& job_id) override;
  int64_t FinishDelete(const std::string& job_id) override;
  void AbandonDelete(const std::string& job_id) override;
  absl::Status RemoveRun(const std::string& job_id) override;
  absl::StatusOr<int64_t> RemoveCheckpoints(const std::string& job_id) override;
  bool MakeRoom() override;
  void AppendLog(const std::string& job_id, const std::string& line) override;
  bool Exists(const std::string& path) override;
  absl::Status MayRead(const std::string& path, Use use) override;
  std::string JobAt(const std::string& path) override;
  std::optional<int64_t> FreeBytes() override;
  absl::StatusOr<Model> FindModel(const std::string& model) override;
  absl::StatusOr<Model> ReadResult(const std::string& folder) override;

 private:
  std::vector<std::filesystem::path> FoldersFor(Use use) const;
  // NotFound, with what to do.
  absl::Status NoModel(const std::string& model);
  // Whether the path lies in `place`, a folder of the daemon's own, and in no
  // folder of `allowed` that itself lies in `place`.
  static bool IsOurs(const std::filesystem::path& place,
                     const std::vector<std::filesystem::path>& allowed,
                     const std::string& path);

  const std::filesystem::path state_dir_;
  const std::filesystem::path jobs_dir_;
  const ReadFolders folders_;
  ModelFinder* const pushed_;
};

// The request that made a job, as JSON in the job's folder, so that a similar
// job can be made. Excludes what belongs to the caller and to this call: the
// owner, the limits, the idempotency key.
class RequestFile {
 public:
  // The name of the file in the job's folder.
  static constexpr char kFile[] = "request.json";

  static std::string Encode(const SubmitRequest& request);

  // FailedPrecondition if `folder`, a job's, has no such file: an earlier
  // release made the job. DataLoss if the file is malformed.
  static absl::StatusOr<SubmitRequest> Read(
      const std::filesystem::path& folder);
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_FILES_H_
