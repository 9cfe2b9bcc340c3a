// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_MODELS_PUSHED_MODELS_H_
#define MPSD_SERVER_MODELS_PUSHED_MODELS_H_

#include <cstdint>
#include <filesystem>
#include <functional>
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
#include "server/jobs/blob_store.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_manager.h"
#include "server/models/file_list.h"

namespace mpsd::models {

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
  struct Model {
    std::string name;
    std::string owner;
    std::string revision;
    std::string folder;  // absolute
    int64_t size_bytes = 0;
    absl::Time create_time;  // of this revision's push
  };
  struct Request {
    std::string name;              // CheckModelName
    std::vector<ModelFile> files;  // CheckFileList
    std::string user;
    bool is_admin = false;
    jobs::Wanted wanted = {};
    // Counts the blobs for the user once the files were found to be a model;
    // an error ends the push.
    std::function<absl::Status()> count = {};
  };
  struct Pushed {
    Model model;
    bool existed = false;
  };
  // The folders of models, with the revision, that jobs need. Asked once no
  // submission under way can come to need another one of the model.
  using Needed = std::function<absl::StatusOr<std::set<std::string>>()>;

  // Makes the folder where it is missing, reads what is there, and removes what
  // a push or a removal that was cut off left. `log` gets a line for each thing
  // that it cannot read, which stays.
  static absl::StatusOr<std::unique_ptr<PushedModels>> Open(
      std::filesystem::path folder,
      const std::function<void(const std::string&)>& log);

  // Errors as ModelService.Push.
  absl::StatusOr<Pushed> Push(const Request& request, jobs::BlobStore& blobs);
  // Forgets the name and removes all its revisions; returns the bytes that
  // nothing else needs: the blob store frees them once its grace is over.
  // FailedPrecondition where a job needs the model; PermissionDenied for a
  // user who neither pushed it nor is an admin; NotFound.
  absl::StatusOr<int64_t> Remove(const std::string& name,
                                 const std::string& user, bool is_admin,
                                 const Needed& needed);
  // Removes the revisions of `name` that a later push replaced, but for the
  // folders that `needed` returns, those of jobs. Returns how many went.
  absl::StatusOr<int> Sweep(const std::string& name, const Needed& needed);
  // The names that have revisions which a later push replaced.
  std::vector<std::string> Superseded() const;

  std::vector<Model> List() const;
  std::optional<Found> Find(const std::string& name) override;
  std::string Alike(const std::string& name) override;

 private:
  struct Entry {
    Model model;
    // Held by who found the folder; a copy is made under mutex_ alone.
    std::shared_ptr<const int> lease = std::make_shared<const int>(0);
    // The leases of revisions that a later push replaced, by folder.
    std::map<std::string, std::weak_ptr<const int>> former;

    // Whether somebody holds what Find returned.
    bool IsLeased() const;
  };

  explicit PushedModels(std::filesystem::path folder)
      : folder_(std::move(folder)) {}

  std::filesystem::path FolderOf(const std::string& name) const;
  void ReadAll(const std::function<void(const std::string&)>& log);
  absl::Status CheckMayPush(const Request& request) const;
  absl::StatusOr<std::string> Place(const Request& request,
                                    const std::string& revision,
                                    jobs::BlobStore& blobs);

  const std::filesystem::path folder_;
  absl::Mutex changes_;  // one push or removal at a time; before mutex_
  mutable absl::Mutex mutex_;
  std::map<std::string, Entry> models_ ABSL_GUARDED_BY(mutex_);  // by name
};

}  // namespace mpsd::models

#endif  // MPSD_SERVER_MODELS_PUSHED_MODELS_H_
