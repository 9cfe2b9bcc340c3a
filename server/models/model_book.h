// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/jobs/submission.h"
#include "server/jobs/user_limits.h"
#include "server/models/pushed_models.h"
#include "server/store/blob_store.h"
#include "server/store/user_ledger.h"

namespace mpsd::models {

// A model, and the user who requests it.
struct PullRequest {
  std::string id;        // IsModelName
  std::string revision;  // IsRevision; never empty: "main" if none was named
  std::string user;
  bool is_admin = false;
  jobs::UserLimits limits = {};  // of the user
};

// A pull's progress.
struct PullNews {
  int64_t received_bytes = 0;  // in the model's folder, since the pull began
  std::string note;            // the last output of the hub's client
  bool done = false;           // the model is complete; nothing follows
};

// A client's watch of a pull, which continues when the watch ends. Used by one
// thread at a time.
class PullWatch {
 public:
  virtual ~PullWatch() = default;
  // The pull's progress, if it has changed since the last call; else nullopt:
  // `wake` is called once it does. An error, as ModelService.Pull names them,
  // is how the pull ended. Does not wait.
  virtual absl::StatusOr<std::optional<PullNews>> Next() = 0;
};

// Fetches models from a hub into the Hugging Face cache; implemented by
// server/models. Thread-safe.
class Puller {
 public:
  virtual ~Puller() = default;
  // Begins the pull, or joins the one of the same model that is in progress.
  // May wait for the disk, but not for the hub. `wake` may be called on any
  // thread, even after the watch is gone; it does not block. Errors: those of
  // ModelService.Pull that are known at once.
  virtual absl::StatusOr<std::unique_ptr<PullWatch>> Pull(
      const PullRequest& request, std::function<void()> wake) = 0;
  // Ends the pull; its watches get Cancelled. NotFound if none is in progress;
  // PermissionDenied if another user began it and the caller is not an admin.
  virtual absl::Status Cancel(const PullRequest& request) = 0;
  // Whether some revision of the model is being pulled: then the model cannot
  // be removed.
  virtual bool IsPulling(const std::string& id) = 0;
  // Whether the machine has what pulls need, a Hugging Face client.
  virtual bool CanPull() const = 0;
};

// A model in a Hugging Face cache: its id, the commit of a snapshot and when
// that was made, the bytes of all snapshots.
struct HubModel : Manifest {
  std::filesystem::path folder;  // of the snapshot
  bool is_main = true;  // the snapshot is the one that jobs get by the name
};

// The models of the cache that this process' environment names, by name, at
// most `limit` of them; only `name` if that is not empty. A model has the
// snapshot of its ref main, else any that has a config.json; models without one
// are omitted, as jobs do not find them.
std::vector<HubModel> ListHubModels(const std::string& name, size_t limit);

// Removes what an interrupted removal left.
void SweepHubModels();

// A model that jobs can name; of the Hugging Face cache if it was pulled. Its
// owner pushed it, or is the one whose pulls wrote most of it. Has its facts.
struct ListedModel : Manifest {
  bool pulled = false;
  std::optional<bool> fits;  // into this machine; nullopt: unknown
  ModelUses::Use use;
};

// The models that jobs can name: the pushed ones, and those of the Hugging Face
// cache. A name that both have means the pushed one. Thread-safe.
class ModelBook {
 public:
  // The dependencies must outlive the book. Null: there are no pulls.
  ModelBook(PushedModels& pushed, ModelUses& uses, Puller* puller,
            PullLedger* pulls = nullptr)
      : pushed_(pushed), uses_(uses), puller_(puller), pulls_(pulls) {}

  // By name, at most limits::kListedModels; only `name` if that is not empty.
  absl::StatusOr<std::vector<ListedModel>> List(
      const std::string& name, const jobs::MachineMemory& memory);

  // FailedPrecondition if jobs get a pushed model by this name, so that a pull
  // of it would change nothing.
  absl::Status CheckMayPull(const std::string& name);
  bool CanPull() const { return puller_ != nullptr && puller_->CanPull(); }

  // PushedModels::Push; then removes revisions that no job uses any more.
  struct Pushed {
    ListedModel model;
    bool existed = false;
  };
  absl::StatusOr<Pushed> Push(const PushedModels::Request& request,
                              jobs::Blobs& blobs,
                              const jobs::MachineMemory& memory);

  // The errors of ModelService.RemoveModel. Returns the bytes freed.
  absl::StatusOr<int64_t> Remove(const std::string& name,
                                 const std::string& user, bool is_admin);

  // Removes the revisions of pushed models that a later push replaced and that
  // no job uses any more. Returns how many.
  absl::StatusOr<int> Sweep();

 private:
  absl::StatusOr<int64_t> RemovePulled(const std::string& name,
                                       const std::string& user, bool is_admin);
  absl::StatusOr<int> SweepOne(const std::string& name);
  ListedModel Listed(const Manifest& manifest,
                     const std::filesystem::path& folder,
                     const jobs::MachineMemory& memory);
  // Those of a folder without a manifest that has them, read once.
  ModelFacts FactsAt(const std::filesystem::path& folder);

  PushedModels& pushed_;
  ModelUses& uses_;
  Puller* const puller_;
  PullLedger* const pulls_;

  struct Read {
    absl::Time changed;  // the folder
    ModelFacts facts;
  };
  absl::Mutex mutex_;
  std::map<std::string, Read> read_ ABSL_GUARDED_BY(mutex_);  // by folder
};

}  // namespace mpsd::models
