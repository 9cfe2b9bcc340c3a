// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/daemon_calls.h"

#include <sys/utsname.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/rpc/convert.h"

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
  jobs::QueueInfo info = reader.Info();
  response.set_version(facts.version);
  response.set_worker_version(info.worker_version);
  response.set_torch_version(info.torch_version);
  response.set_device(info.device.empty() && facts.tested_device
                          ? facts.tested_device()
                          : info.device);
  response.set_platform(Platform());
  ToProto(facts.start_time, *response.mutable_start_time());
  response.set_state_dir(facts.state_dir);
  for (const std::string& address : facts.api_addresses) {
    response.add_api_addresses(address);
  }
  response.set_api_tls(facts.api_tls);
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

namespace {

int32_t Bounded(int64_t count) {
  return static_cast<int32_t>(
      std::min<int64_t>(count, std::numeric_limits<int32_t>::max()));
}

bool IsOfAJob(const jobs::CollectionItem& item) {
  return item.kind == jobs::Collected::kJob ||
         item.kind == jobs::Collected::kCheckpoints;
}

// Whether the caller may only know that it exists: a SHA-256 reveals what
// others have.
bool IsHidden(const jobs::CollectionItem& item, const access::Rights& rights) {
  return item.owner.empty() ? rights.sees_own_alone()
                            : !rights.MayRead(item.owner);
}

}  // namespace

absl::Status PlanCollection(jobs::Collector& collector,
                            const access::Rights& rights,
                            v1::PlanCollectionResponse& response) {
  ASSIGN_OR_RETURN(const jobs::CollectionPlan plan, collector.Plan());
  for (const jobs::CollectionItem& item : plan.items) {
    v1::CollectionItem& out = *response.add_items();
    out.set_kind(static_cast<v1::CollectionItem::Kind>(item.kind));
    out.set_owner(ValidUtf8(item.owner));
    out.set_size_bytes(item.size_bytes);
    out.set_why(ValidUtf8(item.why));
    const bool hidden = IsHidden(item, rights);
    if (!hidden || IsOfAJob(item)) out.set_id(ValidUtf8(item.id));
    if (!hidden) out.set_name(ValidUtf8(item.name));
  }
  response.set_more(Bounded(plan.more));
  response.set_freed_bytes(plan.freed_bytes);
  response.set_used_bytes(plan.used_bytes);
  response.set_budget_bytes(plan.budget_bytes);
  response.set_short_of(ValidUtf8(plan.short_of));
  response.set_fresh(Bounded(plan.fresh));
  if (plan.fresh > 0) {
    ToProto(plan.fresh_until, *response.mutable_fresh_until());
  }
  return absl::OkStatus();
}

absl::Status Collect(jobs::Collector& collector, const Call& call,
                     v1::CollectResponse& response) {
  ASSIGN_OR_RETURN(const jobs::CollectionResult result,
                   collector.Collect(call.wanted));
  response.set_removed(Bounded(result.removed));
  response.set_freed_bytes(result.freed_bytes);
  for (const std::string& failed : result.failed) {
    response.add_failed(ValidUtf8(failed));
  }
  return absl::OkStatus();
}

}  // namespace mpsd::rpc
