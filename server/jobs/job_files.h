// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/spec/model_config.h"
#include "server/jobs/job_reader.h"
#include "server/store/blob_store.h"

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
  // The model, pushed or in the Hugging Face cache, that a `name` which no
  // model has was most likely meant to be; "" if none is near.
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
// Thread-safe. Virtual for tests, which keep the files in memory.
class JobFiles {
 public:
  struct Link {
    std::string relative;  // relative to inputs/, '/' between parts, no ".."
    std::string target;    // absolute
    // The path in job.json, human-readable; "": it is `relative`.
    std::string spelled = "";
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

  // A path in STATE/jobs (uploads and results) is not a model unless `folders`
  // name a folder in STATE/jobs; nothing else in STATE (the database, keys,
  // everyone's uploads) can be named unless `folders` name a folder there. The
  // folders are resolved again at each call, because their volume may appear
  // and disappear.
  // `pushed`, which must outlive the object, finds the models that users
  // pushed; null: pushing is off. `can_pull`: whether a model of this name can
  // be fetched from the hub; null: none can.
  explicit JobFiles(
      const std::filesystem::path& state_dir,
      ReadFolders folders = {{"/"}, {"/"}}, ModelFinder* pushed = nullptr,
      std::function<bool(const std::string& name)> can_pull = nullptr)
      : state_dir_(std::filesystem::absolute(state_dir)),
        jobs_dir_(state_dir_ / "jobs"),
        folders_(std::move(folders)),
        pushed_(pushed),
        can_pull_(std::move(can_pull)) {}
  virtual ~JobFiles() = default;

  // Makes the folder with job.json, request.json and inputs/. Once Create
  // returns OK the folder is durable, provided that the targets of the links
  // are. Create ends early and leaves nothing behind when `wanted` says that no
  // caller waits any more.
  virtual absl::Status Create(const std::string& job_id,
                              const std::string& spec_json,
                              const std::string& request_json,
                              const std::vector<Link>& links,
                              const Wanted& wanted);
  // Replaces job.json; durable once it returns OK.
  virtual absl::Status ReplaceSpec(const std::string& job_id,
                                   const std::string& spec_json);
  virtual void Remove(const std::string& job_id);
  // The steps of a deletion (job_deletion.h): mark the folder; remove the
  // folder once the row is removed, returning the bytes freed; or remove the
  // mark.
  virtual absl::Status BeginDelete(const std::string& job_id);
  virtual int64_t FinishDelete(const std::string& job_id);
  virtual void AbandonDelete(const std::string& job_id);
  // Removes what the worker wrote into OutputDir, if anything. If it fails, a
  // part may be left.
  virtual absl::Status RemoveRun(const std::string& job_id);
  // Removes the checkpoints below OutputDir, atomically for readers, and
  // returns the bytes freed; 0 if there are none.
  virtual absl::StatusOr<int64_t> RemoveCheckpoints(const std::string& job_id);
  // Frees space on a full disk, so that a row can be written or deleted; false
  // if nothing was left to free.
  virtual bool MakeRoom();
  // The result of `write`, which is called again if the disk was full and
  // MakeRoom freed space.
  absl::Status WithRoom(const std::function<absl::Status()>& write);
  // Appends "<time> mpsd: <line>" to the job's log.
  virtual void AppendLog(const std::string& job_id, const std::string& line);
  // Whether this machine has a file or folder at `path`. True for every link
  // into STATE, which no worker follows: a link must not reveal what STATE has.
  virtual bool Exists(const std::string& path);
  // FailedPrecondition if jobs may not name `path` for `use`, with the same
  // message whether `path` exists or not.
  virtual absl::Status MayRead(const std::string& path, Use use);
  // The free bytes of the state folder's file system; nullopt if unknown.
  virtual std::optional<int64_t> FreeBytes();
  // Finds a model with spec::FindModelFolder among the folders that MayRead
  // allows, and reads its config with spec::ReadModelConfig. An id is looked up
  // among the pushed models, then in the Hugging Face cache. NotFound says how
  // this machine gets the model.
  virtual absl::StatusOr<Model> FindModel(const std::string& model);
  // The model in `folder`, the result of a job, though MayRead allows no path
  // in STATE/jobs as a model.
  virtual absl::StatusOr<Model> ReadResult(const std::string& folder);
  // Where `path` is in STATE, links followed, such as "jobs/ID/out"; of a path
  // that does not exist, by its name; "" for a path elsewhere.
  virtual std::string PlaceInState(const std::string& path);
  // The id of the job whose folder contains `path`; "" if none does, "." for
  // STATE/jobs itself.
  std::string JobAt(const std::string& path);
  // Changes with the file at `path`, or with the files of the model or adapter
  // in the folder there. "" for a path in STATE, whose files never change.
  virtual std::string StampOf(const std::string& path);

  const std::filesystem::path& state_dir() const { return state_dir_; }
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
  const std::function<bool(const std::string& name)> can_pull_;
};

// `json`, an object with the member "inputs": null, with those inputs.
std::string WithInputs(const std::string& json,
                       const std::vector<InputFile>& inputs);

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

// How job.json spells a job's uploaded files. The worker knows these files only
// by their places below JOBS/ID/inputs, and its messages are shown in the
// user's spelling.
class InputNames {
 public:
  // The name of the file in the job's folder that keeps the names.
  static constexpr char kFile[] = "input_names.json";

  // The content of kFile for `links`; empty, and then no file is needed, if
  // every input is spelled like its place.
  static std::string Encode(const std::vector<JobFiles::Link>& links);

  // Reads the names of a job's `folder`. An unreadable kFile counts as empty.
  explicit InputNames(const std::filesystem::path& folder);

  // `text` with the first 16 paths below inputs/ spelled as in job.json. A
  // folder is spelled after a file in it, and so is a path that was not
  // uploaded.
  std::string Respelled(std::string_view text) const;

 private:
  // The spelling of the path at the start of `rest`, and how many bytes of
  // `rest` the path has.
  std::pair<std::string, size_t> Spelling(std::string_view rest) const;

  std::string inputs_;                                     // ".../inputs/"
  std::map<std::string, std::string, std::less<>> names_;  // place → name
  size_t longest_ = 0;  // length of the longest place
};

// A worker's `text` as users know what it names: `model_folder` as
// `model_name`, unless one is empty, and files of the job's absolute `folder`
// as InputNames spells them.
std::string AsSpelled(std::string text, const std::filesystem::path& folder,
                      const std::string& model_folder,
                      const std::string& model_name);

// Places the uploaded files of a submission below the inputs/ of its job. The
// files keep their positions relative to each other, so that a path in one of
// them finds another: "train.jsonl" and "../images/1.png" become
// "up/train.jsonl" and "images/1.png", "/data/t.csv" becomes "root/data/t.csv".
class Inputs {
 public:
  // All that is given must outlive it.
  //   INVALID_ARGUMENT    an invalid hash or path, a path given twice, or
  //                       one below another.
  //   FAILED_PRECONDITION a missing blob.
  static absl::StatusOr<Inputs> Create(const std::vector<InputFile>& inputs,
                                       const std::string& job_id,
                                       JobFiles& files, Blobs& blobs);

  // The path that the worker gets for a file or folder of the spec: below
  // inputs/, or else a path of this machine that jobs may read for `use`.
  // Errors begin with `field`.
  absl::StatusOr<std::string> Resolve(const std::string& field,
                                      const std::string& path,
                                      JobFiles::Use use = JobFiles::Use::kData);

  // INVALID_ARGUMENT for an input that no call of Resolve used.
  absl::Status CheckAllUsed() const;

  std::vector<JobFiles::Link> Links() const;

 private:
  struct Input {
    const InputFile* given;
    bool used = false;
  };

  Inputs(const std::string& job_id, JobFiles& files, Blobs& blobs)
      : job_id_(&job_id), files_(&files), blobs_(&blobs) {}

  absl::Status Add(const InputFile& input);
  absl::Status Arrange();
  // The place of a normal path below inputs/; empty for a path that names
  // nothing.
  std::string PlaceOf(const std::string& normal) const;
  // Whether inputs lie below a normal path; marks them as used.
  bool UseBelow(const std::string& folder);
  absl::StatusOr<std::string> Local(const std::string& field,
                                    const std::string& path,
                                    JobFiles::Use use) const;

  const std::string* job_id_;
  JobFiles* files_;
  Blobs* blobs_;
  std::map<std::string, Input> inputs_;  // by normal path
  std::map<std::string, bool> folders_;  // results of UseBelow
  int levels_up_ = 0;  // the most ".." at the beginning of a path
  std::string up_ = "up", root_ = "root";
};

}  // namespace mpsd::jobs
