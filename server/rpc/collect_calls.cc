// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/collect_calls.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "core/base/status_macros.h"
#include "server/rpc/status.h"

namespace mpsd::rpc {
namespace {

absl::Status NoCollector() {
  return absl::UnimplementedError("this daemon collects nothing");
}

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

absl::Status PlanCollection(jobs::Collector* collector,
                            const access::Rights& rights,
                            v1::PlanCollectionResponse& response) {
  if (collector == nullptr) return NoCollector();
  ASSIGN_OR_RETURN(const jobs::CollectionPlan plan, collector->Plan());
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
  return absl::OkStatus();
}

absl::Status Collect(jobs::Collector* collector, const Call& call,
                     v1::CollectResponse& response) {
  if (collector == nullptr) return NoCollector();
  ASSIGN_OR_RETURN(const jobs::CollectionResult result,
                   collector->Collect(call.wanted));
  response.set_removed(Bounded(result.removed));
  response.set_freed_bytes(result.freed_bytes);
  for (const std::string& failed : result.failed) {
    response.add_failed(ValidUtf8(failed));
  }
  return absl::OkStatus();
}

}  // namespace mpsd::rpc
