// SPDX-License-Identifier: Apache-2.0
// What the daemon does for the logbook: the watch over attempts, which stands
// between the scheduler and the metrics, and the thread that writes records.
#include <map>
#include <string>
#include <utility>

#include "server/build_info.h"
#include "server/daemon.h"
#include "server/log.h"

namespace mpsd {
namespace {

constexpr char kUnknown[] = "unknown";  // BuildInfo's word

std::string Known(const std::map<std::string, std::string>& build,
                  const char* what) {
  const auto found = build.find(what);
  return found == build.end() || found->second == kUnknown ? "" : found->second;
}

}  // namespace

void Daemon::MakeLogbook() {
  const std::map<std::string, std::string> build = BuildInfo();
  logbook::RunWatch::Options watch;
  watch.torch_version = Known(build, "torch");
  watch.version = MPSD_VERSION;
  watch.on_end = [this] { logbook_ticker_.WakeUp(); };
  run_watch_ = std::make_unique<logbook::RunWatch>(
      std::move(watch), *exported_metrics_, base::Clock::Real());
  logbook::Logbook::Options options;
  options.version = MPSD_VERSION;
  options.commit = Known(build, "commit");
  options.log = LineTo(log_, spdlog::level::warn);
  logbook_ = std::make_unique<logbook::Logbook>(
      std::move(options),
      logbook::Logbook::Dependencies{*logbook_store_, *job_store_, *job_files_,
                                     *run_watch_, base::Clock::Real()});
}

void Daemon::CloseLogbook() {
  logbook_ticker_.Stop();
  // The attempt that a stop of mpsd ended.
  if (logbook_) logbook_->Tend();
}

}  // namespace mpsd
