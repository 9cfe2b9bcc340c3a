// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_MODELS_MODEL_BOOK_H_
#define MPSD_SERVER_MODELS_MODEL_BOOK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/jobs/blob_store.h"
#include "server/models/model_facts.h"
#include "server/models/model_uses.h"
#include "server/models/pull_ledger.h"
#include "server/models/puller.h"
#include "server/models/pushed_models.h"

namespace mpsd::models {

// A model that jobs can name.
struct ListedModel {
  std::string name, revision;
  bool pulled = false;  // of the Hugging Face cache
  std::string owner;    // who pushed it, or whose pulls wrote most of it
  int64_t size_bytes = 0;
  ModelFacts facts;
  absl::Time create_time;
  ModelUses::Use use;
};

// The models that jobs can name: those that were pushed, and those of the
// Hugging Face cache. A name that both have means the pushed one. Thread-safe.
class ModelBook {
 public:
  // The borrowed objects must outlive the book. Null: there are no pulls.
  ModelBook(PushedModels& pushed, ModelUses& uses, Puller* puller,
            PullLedger* pulls = nullptr)
      : pushed_(pushed), uses_(uses), puller_(puller), pulls_(pulls) {}

  // By name, at most limits::kListedModels; `name` alone where that is not
  // empty.
  absl::StatusOr<std::vector<ListedModel>> List(
      const std::string& name, const jobs::MachineMemory& memory);

  // PushedModels::Push; then removes revisions that no job has any more.
  struct Pushed {
    ListedModel model;
    bool existed = false;
  };
  absl::StatusOr<Pushed> Push(const PushedModels::Request& request,
                              jobs::BlobStore& blobs,
                              const jobs::MachineMemory& memory);

  // The errors of ModelService.RemoveModel. Returns the bytes freed.
  absl::StatusOr<int64_t> Remove(const std::string& name,
                                 const std::string& user, bool is_admin);

  // Removes the revisions of pushed models that a later push replaced and that
  // no job has any more. Returns how many went.
  absl::StatusOr<int> Sweep();

 private:
  absl::StatusOr<int64_t> RemovePulled(const std::string& name,
                                       const std::string& user, bool is_admin);
  absl::StatusOr<int> SweepOne(const std::string& name);

  PushedModels& pushed_;
  ModelUses& uses_;
  Puller* const puller_;
  PullLedger* const pulls_;
};

}  // namespace mpsd::models

#endif  // MPSD_SERVER_MODELS_MODEL_BOOK_H_
