// SPDX-License-Identifier: Apache-2.0
// The watch over attempts, between the scheduler and the metrics, and the
// thread that stores its observations.
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

void Daemon::MakeRecords() {
  const std::map<std::string, std::string> build = BuildInfo();
  records::RunWatch::Options watch;
  watch.torch_version = Known(build, "torch");
  watch.version = MPSD_VERSION;
  watch.commit = Known(build, "commit");
  watch.on_end = [this] { record_ticker_.WakeUp(); };
  run_watch_ = std::make_unique<records::RunWatch>(
      std::move(watch), *exported_metrics_, base::Clock::Real());
  records::JobRecords::Options options;
  options.log = LineTo(log_, spdlog::level::warn);
  records_ = std::make_unique<records::JobRecords>(
      std::move(options),
      records::JobRecords::Dependencies{*past_jobs_, *job_store_, *job_files_,
                                        *run_watch_, base::Clock::Real()});
}

void Daemon::CloseRecords() {
  record_ticker_.Stop();
  // The attempt that a stop of mpsd ended.
  if (records_) records_->Tend();
}

}  // namespace mpsd
