// SPDX-License-Identifier: Apache-2.0
// The inputs of the daemon's doctor.
#include <filesystem>
#include <string>
#include <utility>

#include "core/host/environment.h"
#include "core/host/machine.h"
#include "core/spec/model_folder.h"
#include "core/wire/messages.h"
#include "server/daemon.h"
#include "server/worker_surroundings.h"

namespace mpsd {
namespace {

constexpr size_t kMostFolders = 8;  // of a kind

std::string ValueOf(const host::Environment& environment,
                    const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

// The folders that workers read or keep caches in. "/" among the roots names no
// particular volume.
std::vector<doctor::FolderMount> FoldersOf(const Config& config,
                                           const host::Environment& worker) {
  std::string cache = ValueOf(worker, "XDG_CACHE_HOME");
  if (cache.empty()) cache = ValueOf(worker, "HOME") + "/.cache";
  std::vector<doctor::FolderMount> folders = {
      {"cache", cache, std::nullopt},
      {"models", spec::HubCacheFolder(), std::nullopt}};
  const auto add = [&](const char* what, const auto& roots) {
    size_t count = 0;
    for (const std::filesystem::path& root : roots) {
      if (root == "/" || ++count > kMostFolders) continue;
      folders.push_back({what, root.string(), std::nullopt});
    }
  };
  add("models", config.model_roots);
  add("data", config.data_roots);
  return folders;
}

}  // namespace

void Daemon::MakeExaminer() {
  MachineExaminer::Options options;
  options.mpsd_version = MPSD_VERSION;
  options.protocol_version = wire::kProtocolVersion;
  options.state_dir = config_.state_dir;
  options.verdict_path = config_.state_dir / "selftest.json";
  options.min_free_bytes = config_.min_free_bytes;
  options.stop_grace = config_.stop_grace;
  options.gates.worker_path = config_.worker;
  options.gates.environment = host::WorkerEnvironment(
      WorkersEnvironment(config_), /*allow_cpu_fallback=*/false);
  options.gates.temporary_dir = config_.state_dir / "tmp";
  options.folders = FoldersOf(config_, options.gates.environment);
  options.daemon_environment = host::CurrentEnvironment();
  options.configured = config_.environment;
  options.places.home = ValueOf(options.daemon_environment, "HOME");
  options.places.launchd = !host::MacosVersion().empty();
  options.queue = [this] { return board_->Info(); };
  options.tested = tested_.get();
  examiner_ = std::make_unique<MachineExaminer>(std::move(options),
                                                base::Clock::Real());
}

}  // namespace mpsd
