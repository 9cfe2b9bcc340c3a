// SPDX-License-Identifier: Apache-2.0
// The daemon's part in plans of jobs that are not queued.
#include <utility>

#include "core/host/environment.h"
#include "core/host/machine.h"
#include "server/daemon.h"
#include "server/worker_surroundings.h"

namespace mpsd {

void Daemon::MakePlanner() {
  planner::PlanMaker::Options options;
  options.worker_path = config_.worker;
  options.environment = host::WorkerEnvironment(WorkersEnvironment(config_),
                                                /*allow_cpu_fallback=*/false);
  options.plans_dir = config_.state_dir / "plans";
  options.read_roots = FoldersWorkersRead(config_);
  options.chip = host::ProcessorName();
  options.gpu_cores = static_cast<int>(host::GpuCores().value_or(0));
  options.cpu_cores = static_cast<int>(host::CountCores().all);
  options.machine_bytes = host::PhysicalMemoryBytes();
  options.min_free_bytes = config_.min_free_bytes;
  planner_ = std::make_unique<planner::PlanMaker>(
      std::move(options),
      planner::PlanMaker::Dependencies{*board_, *job_files_, *blob_store_,
                                       base::Clock::Real()});
}

}  // namespace mpsd
