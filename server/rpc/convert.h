// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_CONVERT_H_
#define MPSD_SERVER_RPC_CONVERT_H_

#include <optional>

#include "mpsd/v1/jobs.pb.h"
#include "server/jobs/job.h"
#include "server/jobs/job_manager.h"

namespace mpsd::rpc {

// Conversions between the queue's structs and the API's messages; each function
// fills an empty message and repairs text that is not UTF-8.
void ToProto(const jobs::Job& job, v1::Job& out);
void ToProto(const jobs::Progress& progress, v1::Progress& out);
void ToProto(const jobs::MemoryCounters& memory, v1::DeviceMemory& out);
void ToProto(const jobs::Evaluated& evaluated, v1::Evaluated& out);
void ToProto(const jobs::Checkpoint& checkpoint, v1::Checkpoint& out);
void ToProto(const jobs::Event& event, v1::JobEvent& out);
void ToProto(absl::Time time, google::protobuf::Timestamp& out);

v1::JobState ToProto(jobs::State state);
// nullopt for UNSPECIFIED and for a number that only a newer client knows.
std::optional<jobs::State> FromProto(v1::JobState state);

v1::JobKind ToProto(jobs::JobKind kind);
// UNSPECIFIED means training, because older clients know no kinds; nullopt for
// a number that only a newer client knows.
std::optional<jobs::JobKind> FromProto(v1::JobKind kind);

// A kind that CheckSubmit refuses becomes training.
jobs::SubmitRequest FromProto(const v1::SubmitRequest& request);
// Without the owner and the idempotency key.
void ToProto(const jobs::SubmitRequest& request, v1::SubmitRequest& out);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_CONVERT_H_
