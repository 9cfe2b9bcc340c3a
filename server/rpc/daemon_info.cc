// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/daemon_info.h"

#include <sys/utsname.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "server/rpc/convert.h"
#include "server/rpc/host_state.h"
#include "server/rpc/status.h"

namespace mpsd::rpc {
namespace {

std::string Platform() {
  struct utsname name;
  if (uname(&name) != 0) return "";
  return absl::StrCat(name.sysname, " ", name.release, " ", name.machine);
}

int64_t FreeBytes(const std::string& folder) {
  std::error_code error;
  const std::filesystem::space_info space =
      std::filesystem::space(folder, error);
  return error ? 0 : static_cast<int64_t>(space.available);
}

}  // namespace

absl::Status DaemonInfo(jobs::JobReader& reader, const DaemonFacts& facts,
                        v1::InfoResponse& response) {
  jobs::ManagerInfo info = reader.Info();
  response.set_version(facts.version);
  response.set_worker_version(info.worker_version);
  response.set_torch_version(info.torch_version);
  response.set_device(info.device);
  response.set_platform(Platform());
  ToProto(facts.start_time, *response.mutable_start_time());
  response.set_state_dir(facts.state_dir);
  response.set_metrics_address(facts.metrics_address);
  response.set_metrics_tls(facts.metrics_tls);
  response.set_page_address(facts.page_address);
  response.set_schema_version(facts.schema_version);
  response.set_queued_jobs(
      static_cast<int32_t>(info.jobs[jobs::State::kQueued]));
  response.set_running_jobs(
      static_cast<int32_t>(info.jobs[jobs::State::kRunning]));
  ToProto(info.memory, *response.mutable_memory());
  response.set_disk_free_bytes(FreeBytes(facts.state_dir));
  response.set_protocol_version(facts.protocol_version);
  response.set_running_job_id(info.running_job_id);
  response.set_hold(ValidUtf8(info.hold));
  response.set_hold_reason(info.hold_reason);
  response.set_drained(info.drained);
  ToProto(info.host, *response.mutable_host());
  if (!info.pause.reasons.empty()) {
    ToProto(info.pause, *response.mutable_pause());
  }
  return absl::OkStatus();
}

}  // namespace mpsd::rpc
