// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/show_queue.h"

#include "core/base/limits.h"
#include "server/rpc/convert.h"
#include "server/rpc/status.h"

namespace mpsd::rpc {
namespace {

void ToProto(const jobs::QueuePlace& place, v1::QueueResponse::Entry& out) {
  out.set_id(place.id);
  out.set_name(ValidUtf8(place.name));
  out.set_owner(ValidUtf8(place.owner));
  out.set_priority(place.priority);
  out.set_state(rpc::ToProto(place.state));
  rpc::ToProto(place.since, *out.mutable_queue_time());
  out.set_why(ValidUtf8(place.why));
  out.set_hold(ValidUtf8(place.hold));
  if (place.not_before) {
    rpc::ToProto(*place.not_before, *out.mutable_not_before());
  }
}

}  // namespace

absl::Status ShowQueue(jobs::JobReader& reader, const access::Rights& rights,
                       const v1::QueueRequest&, v1::QueueResponse& response) {
  const jobs::QueueListing listing = reader.Queue(limits::kQueueEntries);
  for (const jobs::QueuePlace& place : listing.places) {
    v1::QueueResponse::Entry& entry = *response.add_entries();
    ToProto(place, entry);
    if (rights.MayRead(place.owner)) continue;
    entry.clear_name();
    entry.clear_hold();
  }
  response.set_more(static_cast<int32_t>(listing.more));
  for (const jobs::OwnerUse& use : listing.usage) {
    v1::QueueResponse::Usage& out = *response.add_usage();
    out.set_owner(ValidUtf8(use.owner));
    out.set_seconds(use.seconds);
  }
  response.set_half_life_seconds(absl::ToDoubleSeconds(listing.half_life));
  return absl::OkStatus();
}

}  // namespace mpsd::rpc
