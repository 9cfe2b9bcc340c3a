// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/spec/model_folder.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_reader.h"
#include "server/store/blob_store.h"

namespace mpsd::models {

// Checks job.json's name of a model, "name" or "org/name", as specified in
// proto/mpsd/v1/models.proto. InvalidArgument, beginning with `field`.
absl::Status CheckModelName(const std::string& field, const std::string& name);

// Checks a branch, a tag or a commit of a hub: 1 to limits::kModelIdBytes
// letters, digits, '.', '_', '-' and '/', of which no part between slashes is
// empty or begins with a '.'. InvalidArgument, beginning with `field`.
absl::Status CheckRevision(const std::string& field,
                           const std::string& revision);

// The common form of two names that are equal if case is ignored.
std::string FoldedName(const std::string& name);

// What mpsd can do with a model's folder.
struct ModelFacts {
  std::string family;              // config.json's model_type; "": unknown
  int64_t parameters = 0;          // 0: unknown
  std::vector<std::string> tasks;  // of job.json; empty: see `problem`
  std::string problem;             // why not all jobs can use it
  // The least device memory in bytes that LoRA takes with job.json's defaults
  // and auto_find_batch_size; 0: unknown.
  int64_t least_memory_bytes = 0;
  int64_t max_row_tokens = 0;  // as ModelConfig's; 0: unknown, or of images
};

// Of what ReadModelFolder returned, which may take a second.
ModelFacts FactsOf(const absl::StatusOr<spec::ModelFolder>& model);

// The model.json of a pushed model: which revision its name has.
struct Manifest {
  std::string name, owner, revision;
  int64_t size_bytes = 0;
  absl::Time create_time;           // of this revision's push
  std::optional<ModelFacts> facts;  // nullopt: not those of this release
};

// NotFound without the file; DataLoss, naming it, if it is invalid.
absl::StatusOr<Manifest> ReadManifest(const std::filesystem::path& folder);
// Replaces the file as a whole, durably.
absl::Status WriteManifest(const std::filesystem::path& folder,
                           const Manifest& manifest);
// Durably; OK if there is none.
absl::Status RemoveManifest(const std::filesystem::path& folder);

// A file of a model that is pushed, and the blob that has its bytes.
struct ModelFile {
  std::string path;  // relative to the model's folder
  std::string sha256;
  int64_t size_bytes = 0;

  bool operator==(const ModelFile&) const = default;
};

// Checks a client's list: files that models consist of (spec::IsModelFile),
// config.json among them, each once, even on a file system that ignores case.
// InvalidArgument, beginning with the field's name.
absl::Status CheckFileList(const std::vector<ModelFile>& files);

// The SHA-256 of the list, whatever its order.
std::string RevisionOfFiles(std::vector<ModelFile> files);

// The bytes of the regular files below `folder` that have at most `most_links`
// hard links, without symbolic links and unreadable files.
int64_t FolderBytes(const std::filesystem::path& folder,
                    uint64_t most_links = std::numeric_limits<uint64_t>::max());
// What is in the folder, by name; none if it cannot be read.
std::vector<std::filesystem::path> EntriesOf(
    const std::filesystem::path& folder);

// The models that people pushed. The files are authoritative:
//
//   STATE/models/models--ORG--NAME/model.json   which revision the name has now
//   STATE/models/models--ORG--NAME/pushed/REVISION/   its files, hard links to
//                                                     their blobs
//
// A revision's folder is whole once it has its name, and model.json is replaced
// as a whole and last: a name has its old files or its new ones, whenever the
// daemon is killed. Jobs have a revision's folder in their specs, which stays
// while they do (Sweep). Thread-safe.
class PushedModels final : public jobs::ModelFinder {
 public:
  struct Model : Manifest {
    std::string folder;  // absolute
  };
  struct Request {
    std::string name;              // CheckModelName
    std::vector<ModelFile> files;  // CheckFileList
    std::string user;
    bool is_admin = false;
    jobs::Wanted wanted = {};
    // Counts the blobs for the user once the files were found to be a model; an
    // error ends the push.
    std::function<absl::Status()> count = {};
  };
  struct Pushed {
    Model model;
    bool existed = false;
  };
  // The folders of models, with the revision, that jobs need. Called once no
  // submission in progress can come to need another one of the model.
  using Needed = std::function<absl::StatusOr<std::set<std::string>>()>;

  // Makes the folder if it is missing, reads its contents, and removes what an
  // interrupted push or removal left. `log` gets a line for each thing that it
  // cannot read and therefore keeps.
  static absl::StatusOr<std::unique_ptr<PushedModels>> Open(
      std::filesystem::path folder,
      const std::function<void(const std::string&)>& log);

  // Errors as ModelService.Push.
  absl::StatusOr<Pushed> Push(const Request& request, jobs::Blobs& blobs);
  // Forgets the name and removes all its revisions; returns the bytes that are
  // not needed otherwise: the blob store frees them once its grace is over.
  // FailedPrecondition if a job needs the model; PermissionDenied for a user
  // who neither pushed it nor is an admin; NotFound.
  absl::StatusOr<int64_t> Remove(const std::string& name,
                                 const std::string& user, bool is_admin,
                                 const Needed& needed);
  // Removes the revisions of `name` that a later push replaced, except the
  // folders that `needed` returns, those of jobs. Returns how many.
  absl::StatusOr<int> Sweep(const std::string& name, const Needed& needed);
  // The names that have revisions which a later push replaced.
  std::vector<std::string> Superseded() const;

  std::vector<Model> List() const;
  std::optional<Found> Find(const std::string& name) override;
  std::string Alike(const std::string& name) override;

 private:
  struct Entry {
    Model model;
    // Held by callers that found the folder; copied only under mutex_.
    std::shared_ptr<const int> lease = std::make_shared<const int>(0);
    // The leases of revisions that a later push replaced, by folder.
    std::map<std::string, std::weak_ptr<const int>> former;

    // Whether a caller holds what Find returned.
    bool IsLeased() const;
  };

  explicit PushedModels(std::filesystem::path folder)
      : folder_(std::move(folder)) {}

  std::filesystem::path FolderOf(const std::string& name) const;
  void ReadAll(const std::function<void(const std::string&)>& log);
  absl::Status CheckMayPush(const Request& request) const;
  absl::Status Place(const Request& request, const std::string& revision,
                     jobs::Blobs& blobs, Model& placed);

  const std::filesystem::path folder_;
  absl::Mutex changes_;  // one push or removal at a time; before mutex_
  mutable absl::Mutex mutex_;
  std::map<std::string, Entry> models_ ABSL_GUARDED_BY(mutex_);  // by name
};

}  // namespace mpsd::models
