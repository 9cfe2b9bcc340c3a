// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_EVENT_BODY_H_
#define MPSD_SERVER_STORE_EVENT_BODY_H_

#include <string>

#include "absl/status/statusor.h"
#include "server/jobs/job.h"

namespace mpsd::store {

// The encoding of events in table events: a kind, and a JSON object with the
// fields of server/jobs/job.h. A member that is absent reads as its
// default, so that old rows stay readable. A double that is not finite is
// stored as null and reads as NaN.
using EventBody = decltype(jobs::Event::body);

// The numbers: 1 StateChanged, 2 Progress, 3 Evaluated, 4 Checkpoint, 5 Note.
int KindOf(const EventBody& body);
inline constexpr int kProgressKind = 2;

std::string EncodeBody(const EventBody& body);
// DataLoss for a body that EncodeBody did not write.
absl::StatusOr<EventBody> DecodeBody(int kind, const std::string& text);

// The JSON of a column of table jobs: the fields of a jobs::Progress or
// jobs::Evaluated; jobs::Metrics as an object whose members keep their order; a
// list of strings. No other type is instantiated.
template <typename Value>
std::string EncodeColumn(const Value& value);
template <typename Value>
absl::StatusOr<Value> DecodeColumn(const std::string& text);

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_EVENT_BODY_H_
