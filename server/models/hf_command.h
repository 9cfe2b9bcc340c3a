// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_MODELS_HF_COMMAND_H_
#define MPSD_SERVER_MODELS_HF_COMMAND_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/host/environment.h"
#include "server/supervisor/spawned_process.h"

namespace mpsd::hub {

// Checks an id that passed models::CheckModelName for what hubs require in
// addition: no "..", and no ".git" at the end. InvalidArgument.
absl::Status CheckHubId(const std::string& id);

// This machine's Hugging Face client: `command`, a path, if not empty, else
// `hf` in PATH, in Homebrew's folders or in ~/.local/bin. FailedPrecondition
// names the command that installs it.
absl::StatusOr<std::string> FindHf(const std::string& command,
                                   const host::Environment& environment);

// The part of mpsd's environment for hf: its folders, its language, its
// proxies, the hub's address and the token or its file; and `cache`, the folder
// where jobs look for models.
host::Environment HfEnvironment(const host::Environment& environment,
                                const std::string& hf,
                                const std::string& cache);

// `hf download` as a child process, in its own group that dies with this
// process, however that ends. One thread at a time.
class HfDownload {
 public:
  // `id` passed CheckHubId, `revision` models::CheckRevision: neither can be
  // taken as an option by hf.
  static absl::StatusOr<std::unique_ptr<HfDownload>> Start(
      const std::string& hf, const host::Environment& environment,
      const std::string& id, const std::string& revision);
  // Kills the group.
  ~HfDownload();
  HfDownload(const HfDownload&) = delete;
  HfDownload& operator=(const HfDownload&) = delete;

  // Takes hf's output, for about as long as `patience`; nullopt while it runs,
  // else OK or hf's error.
  std::optional<absl::Status> Await(absl::Duration patience);
  // The last line that hf wrote, printable: a state of its progress bar.
  const std::string& progress() const { return progress_; }
  // SIGTERM; after `grace` SIGKILL.
  void Stop(absl::Duration grace) { process_->TerminateOrKill(grace); }

 private:
  HfDownload() = default;
  // False if nothing was there.
  bool Read();
  void Take(std::string_view text);
  absl::Status EndOf(int wait_status) const;

  supervisor::UniqueFd output_;
  supervisor::UniqueFd life_;  // its end ends the group
  std::unique_ptr<supervisor::SpawnedProcess> process_;
  std::string line_;  // that has not ended yet
  std::string progress_;
  std::vector<std::string> last_lines_;  // without states of progress bars
};

}  // namespace mpsd::hub

#endif  // MPSD_SERVER_MODELS_HF_COMMAND_H_
