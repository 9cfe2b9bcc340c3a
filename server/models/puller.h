// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_MODELS_PULLER_H_
#define MPSD_SERVER_MODELS_PULLER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/jobs/user_limits.h"

namespace mpsd::models {

// Which model, and who asks.
struct PullRequest {
  std::string id;        // IsModelName
  std::string revision;  // IsRevision; never empty: "main" where none was named
  std::string user;
  bool is_admin = false;
  jobs::UserLimits limits = {};  // of the user
};

// How far a pull has come.
struct PullNews {
  int64_t received_bytes = 0;  // in the model's folder, since the pull began
  std::string note;            // what the hub's client wrote last
  bool done = false;           // the model is there; nothing follows
};

// One client's look at a pull, which continues when the look ends. One thread
// at a time uses it.
class PullWatch {
 public:
  virtual ~PullWatch() = default;
  // How far the pull has come, where that has changed since the last call;
  // nullopt where nothing has: `wake` is called once something does. An error,
  // as ModelService.Pull names them, is how the pull ended. Does not wait.
  virtual absl::StatusOr<std::optional<PullNews>> Next() = 0;
};

// Fetches models from a hub into the Hugging Face cache; implemented by
// server/hub. Thread-safe.
class Puller {
 public:
  virtual ~Puller() = default;
  // Begins the pull, or joins the one of the same model that is under way. May
  // wait for the disk, but not for the hub. `wake` may be called on any thread,
  // also after the watch is gone; it does not block. Errors: those of
  // ModelService.Pull that are known at once.
  virtual absl::StatusOr<std::unique_ptr<PullWatch>> Pull(
      const PullRequest& request, std::function<void()> wake) = 0;
  // Ends the pull; its watches get Cancelled. NotFound where none is under way;
  // PermissionDenied where another user began it and the caller is no admin.
  virtual absl::Status Cancel(const PullRequest& request) = 0;
  // Whether some revision of the model is being pulled: the model cannot be
  // removed then.
  virtual bool IsPulling(const std::string& id) = 0;
};

}  // namespace mpsd::models

#endif  // MPSD_SERVER_MODELS_PULLER_H_
