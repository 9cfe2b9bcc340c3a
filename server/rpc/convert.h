// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_CONVERT_H_
#define MPSD_SERVER_RPC_CONVERT_H_

#include <optional>

#include "mpsd/v1/jobs.pb.h"
#include "server/jobs/job.h"
#include "server/jobs/job_manager.h"

namespace mpsd::rpc {

// Between the queue's structs and the API's messages; each fills an empty
// message. Text that is no UTF-8 is repaired.
void ToProto(const jobs::Job& job, v1::Job& out);
void ToProto(const jobs::Progress& progress, v1::Progress& out);
void ToProto(const jobs::MemoryCounters& memory, v1::DeviceMemory& out);
void ToProto(const jobs::Evaluated& evaluated, v1::Evaluated& out);
void ToProto(const jobs::Checkpoint& checkpoint, v1::Checkpoint& out);
void ToProto(const jobs::Event& event, v1::JobEvent& out);
void ToProto(absl::Time time, google::protobuf::Timestamp& out);

v1::JobState ToProto(jobs::State state);
// nullopt for UNSPECIFIED and for numbers of a newer client.
std::optional<jobs::State> FromProto(v1::JobState state);

v1::JobKind ToProto(jobs::JobKind kind);
// UNSPECIFIED is training, for clients of before there were kinds; nullopt for
// numbers of a newer client.
std::optional<jobs::JobKind> FromProto(v1::JobKind kind);

// A kind that CheckSubmit refuses is training here.
jobs::SubmitRequest FromProto(const v1::SubmitRequest& request);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_CONVERT_H_
