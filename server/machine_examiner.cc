// SPDX-License-Identifier: Apache-2.0
#include "server/machine_examiner.h"

#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/host/environment.h"
#include "core/host/machine.h"
#include "server/planner/disk_gates.h"
#include "server/planner/texts.h"
#include "server/planner/worker_gates.h"

namespace mpsd {
namespace {

using doctor::Selftest;

constexpr size_t kMostOfAKind = 10;

doctor::Machine LookAtMachine() {
  doctor::Machine machine;
  machine.architecture = host::Architecture();
  machine.translated = host::IsTranslated();
  machine.system = host::OperatingSystem();
  machine.macos_version = host::MacosVersion();
  machine.chip = host::ProcessorName();
  machine.nvidia = host::HasNvidiaCard();
  machine.cores = host::CountCores();
  machine.gpu_cores = host::GpuCores();
  machine.memory_bytes = host::PhysicalMemoryBytes();
  return machine;
}

// Missing on a Mac.
std::string ControlGroup() {
  constexpr size_t kLargest = 64 << 10;
  return base::ReadSmallFile("/proc/self/cgroup", kLargest).value_or("");
}

bool IsLarger(const host::Process& a, const host::Process& b) {
  return a.memory_bytes.value_or(-1) > b.memory_bytes.value_or(-1);
}

}  // namespace

std::vector<doctor::OtherProcess> PickOthers(
    std::vector<host::Process> processes, const std::vector<int64_t>& gpu_users,
    int64_t mpsd) {
  std::stable_sort(processes.begin(), processes.end(), IsLarger);
  std::vector<doctor::OtherProcess> others;
  size_t large = 0, users = 0;
  for (const host::Process& process : processes) {
    if (process.pid == mpsd || process.parent == mpsd) continue;
    const bool uses_gpu = std::find(gpu_users.begin(), gpu_users.end(),
                                    process.pid) != gpu_users.end();
    const bool is_large =
        large < kMostOfAKind && process.memory_bytes.value_or(0) > 0;
    if (!is_large && !(uses_gpu && users < kMostOfAKind)) continue;
    large += is_large ? 1 : 0;
    users += uses_gpu ? 1 : 0;
    others.push_back({process.pid, doctor::Foreign(process.name),
                      process.memory_bytes, uses_gpu});
  }
  return others;
}

absl::StatusOr<doctor::Facts> MachineExaminer::Examine(
    bool deep, const std::function<absl::Status()>& wanted) {
  const jobs::ManagerInfo queue = options_.queue();
  doctor::Facts facts;
  {
    absl::MutexLock lock(&mutex_);
    RETURN_IF_ERROR(LookAtTorch(wanted));
    if (deep) {
      MeasureDisk();
      TestAgain(queue);
    }
    facts.worker = gates_;
    facts.disk = LookAtDisk();
  }
  facts.mpsd_version = options_.mpsd_version;
  facts.protocol_version = options_.protocol_version;
  facts.machine = LookAtMachine();
  facts.host = queue.host;
  facts.running_job = queue.running_job_id;
  facts.selftest = LookAtSelftest();
  const std::vector<host::Mount> mounts = host::ListMounts();
  facts.mounts = options_.folders;
  facts.mounts.insert(facts.mounts.begin(),
                      {"state", options_.state_dir.string(), std::nullopt});
  for (doctor::FolderMount& folder : facts.mounts) {
    folder.mount = host::MountOf(folder.folder, mounts);
  }
  facts.processes = PickOthers(
      host::ListProcesses(),
      host::ListGpuUsers().value_or(std::vector<int64_t>()), getpid());
  facts.open_descriptors = host::ReadProcessUsage().open_descriptors;
  facts.limits = host::ReadProcessLimits();
  facts.service = doctor::FindService(
      options_.places, options_.daemon_environment, ControlGroup());
  facts.stop_grace_seconds = absl::ToDoubleSeconds(options_.stop_grace);
  facts.configured = options_.configured;
  facts.daemon_environment = options_.daemon_environment;
  facts.expected_environment = options_.gates.environment;
  facts.time = clock_.Now();
  return facts;
}

absl::Status MachineExaminer::LookAtTorch(
    const std::function<absl::Status()>& wanted) {
  if (IsFresh(gates_.time)) return absl::OkStatus();
  const absl::StatusOr<supervisor::GatesRun> run =
      supervisor::RunGates(options_.gates, wanted);
  RETURN_IF_ERROR(wanted());
  if (run.ok()) {
    gates_ = doctor::ReadGates(run->output, run->status, options_.gates.limit);
  } else {
    gates_ = {};
    gates_.end = doctor::WorkerGates::End::kCrashed;
    gates_.problem = doctor::Foreign(absl::StrCat(
        "mpsd-worker --gates cannot start: ", run.status().message()));
  }
  gates_.time = clock_.Now();
  return absl::OkStatus();
}

void MachineExaminer::MeasureDisk() {
  if (IsFresh(measured_)) return;
  const auto speed =
      doctor::MeasureDisk({.folder = options_.state_dir,
                           .keep_free_bytes = options_.min_free_bytes});
  measured_ = clock_.Now();
  speed_problem_.clear();
  speed_.reset();
  if (speed.ok()) {
    speed_ = *speed;
  } else {
    speed_problem_ = doctor::Foreign(std::string(speed.status().message()));
  }
}

void MachineExaminer::TestAgain(const jobs::ManagerInfo& queue) {
  if (options_.tested == nullptr || !queue.running_job_id.empty() ||
      IsFresh(tested_)) {
    return;
  }
  const Selftest last = LookAtSelftest();
  const bool young = last.time && IsYounger(*last.time, options_.fresh_verdict);
  if (last.state == Selftest::State::kPassed && young) return;
  if (options_.tested->TestAgain()) tested_ = clock_.Now();
}

Selftest MachineExaminer::LookAtSelftest() const {
  Selftest test;
  if (options_.tested == nullptr) {
    test.state = Selftest::State::kSkipped;
    return test;
  }
  const supervisor::TestedLauncher::State state = options_.tested->state();
  test = doctor::ReadSelftest(options_.verdict_path);
  test.running = state.testing;
  if (state.testing) return test;
  if (state.verdict.ok()) {
    // A worker without an accelerator passes and writes no verdict.
    if (test.state != Selftest::State::kPassed) {
      test = {};
      test.state = Selftest::State::kNothingToTest;
    }
    return test;
  }
  if (test.state != Selftest::State::kFailed) {
    // For example, it crashed or could not start.
    test = {};
    test.state = Selftest::State::kFailed;
    test.summary = doctor::Foreign(std::string(state.verdict.message()));
  }
  return test;
}

doctor::Disk MachineExaminer::LookAtDisk() const {
  doctor::Disk disk;
  disk.folder = options_.state_dir.string();
  disk.min_free_bytes = options_.min_free_bytes;
  disk.speed = speed_;
  disk.speed_problem = speed_problem_;
  std::error_code error;
  const auto space = std::filesystem::space(options_.state_dir, error);
  if (error) return disk;
  disk.free_bytes = static_cast<int64_t>(space.available);
  disk.size_bytes = static_cast<int64_t>(space.capacity);
  return disk;
}

}  // namespace mpsd
