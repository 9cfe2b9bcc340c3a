// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_store.h"

#include <cmath>
#include <string_view>

namespace mpsd::jobs {

namespace {

// The beginning of a text in UTF-8, as SQLite's substr cuts it.
std::string FirstCharacters(std::string_view text, int characters) {
  size_t end = 0;
  for (; end < text.size(); ++end) {
    const bool begins = (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
    if (begins && characters-- == 0) break;
  }
  return std::string(text.substr(0, end));
}

}  // namespace

ListPlace PlaceOf(const Job& job, ListOrder order) {
  ListPlace place{job.id, {}};
  switch (order) {
    case ListOrder::kCreated:
      break;
    case ListOrder::kEndTime:
      if (job.end_time) place.value = absl::ToUnixMicros(*job.end_time);
      break;
    case ListOrder::kName:
      place.value = FirstCharacters(job.name, kOrderedCharacters);
      break;
    case ListOrder::kOwner:
      place.value = job.owner;
      break;
    case ListOrder::kState:
      place.value = static_cast<int64_t>(job.state);
      break;
    case ListOrder::kPriority:
      place.value = static_cast<int64_t>(job.priority);
      break;
    case ListOrder::kEvalLoss:
      // SQLite stores no NaN: then the job has no loss.
      if (job.eval_loss_after && !std::isnan(*job.eval_loss_after)) {
        place.value = *job.eval_loss_after;
      }
      break;
    case ListOrder::kDeviceTime:
      place.value = absl::ToInt64Microseconds(job.device_time);
      break;
    case ListOrder::kStoredBytes:
      place.value = job.stored_bytes;
      break;
  }
  return place;
}

}  // namespace mpsd::jobs
