// SPDX-License-Identifier: Apache-2.0
// What the daemon does for sweeps: their book, and the thread of the
// controller that thins them out.
#include <memory>

#include "core/base/clock.h"
#include "server/daemon.h"
#include "server/log.h"

namespace mpsd {

void Daemon::MakeSweeps() {
  sweep_store_ = std::make_unique<store::SweepStore>(*database_, *job_store_);
  sweep_book_ = std::make_unique<sweeps::SweepBook>(
      sweeps::SweepBook::Dependencies{*sweep_store_, *job_store_, *scheduler_,
                                      *scheduler_, base::Clock::Real()},
      [this] { sweep_ticker_.WakeUp(); });
  sweep_controller_ = std::make_unique<sweeps::Controller>(
      *sweep_store_, *job_store_, *scheduler_, base::Clock::Real(),
      LineTo(log_));
}

void Daemon::StartSweeps() {
  sweep_ticker_.Start([this] { return sweep_controller_->Tick(); });
}

}  // namespace mpsd
