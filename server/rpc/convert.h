// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/message.h>

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "core/host/host.h"
#include "grpcpp/grpcpp.h"
#include "mpsd/v1/daemon.pb.h"
#include "mpsd/v1/jobs.pb.h"
#include "server/jobs/job_reader.h"
#include "server/store/job.h"

// Conversions between mpsd's types and the API's.
namespace mpsd::rpc {

// Converts a Status to a grpc::Status; the only code that does. The code is
// kept; the message becomes valid UTF-8 and is cut if the header would be too
// long (6,000 characters of ASCII).
grpc::Status ToGrpc(const absl::Status& status);

// `text` with U+FFFD in place of every byte that is not UTF-8: protobuf refuses
// to parse a string that contains such bytes.
std::string ValidUtf8(std::string_view text);

// `message` in Protocol Buffers' own JSON with the proto's names: fields that
// are 0 or empty are omitted, int64 and non-finite numbers are strings. nullopt
// for a message that has no JSON.
std::optional<std::string> ProtoJson(const google::protobuf::Message& message);

// Each function fills an empty message and repairs text that is not UTF-8.
void ToProto(const jobs::Job& job, v1::Job& out);
void ToProto(const jobs::Progress& progress, v1::Progress& out);
void ToProto(const jobs::MemoryCounters& memory, v1::DeviceMemory& out);
void ToProto(const jobs::Evaluated& evaluated, v1::Evaluated& out);
void ToProto(const jobs::Checkpoint& checkpoint, v1::Checkpoint& out);
void ToProto(const jobs::Event& event, v1::JobEvent& out);
void ToProto(absl::Time time, google::protobuf::Timestamp& out);
absl::Time FromProto(const google::protobuf::Timestamp& time);

v1::JobState ToProto(jobs::State state);
// nullopt for UNSPECIFIED and for a number that only a newer client knows.
std::optional<jobs::State> FromProto(v1::JobState state);

v1::JobKind ToProto(jobs::JobKind kind);
// UNSPECIFIED means training, because older clients know no kinds; nullopt for
// a number that only a newer client knows.
std::optional<jobs::JobKind> FromProto(v1::JobKind kind);

// A kind that CheckSubmit refuses becomes training. Moves a large request.
jobs::SubmitRequest FromProto(v1::SubmitRequest request);
// Without the owner and the idempotency key.
void ToProto(const jobs::SubmitRequest& request, v1::SubmitRequest& out);

// Converts the machine's readings, and the pause that follows from them, to the
// API's messages.
void ToProto(const host::Reading& reading, v1::HostReading& out);
void ToProto(const jobs::Pause& pause, v1::Pause& out);

// The public part of a private job: who uses the device, and when it may be
// free again. Clears every other field: the name, which is a field of the spec,
// the labels, texts, numbers of the training and paths.
void KeepPublicPart(v1::Job& job);

// The kind of the job of `request`: that of its study, or its field `kind`.
// nullopt for a kind that only a newer client knows, and if the two contradict.
std::optional<jobs::JobKind> KindOf(const v1::SubmitRequest& request);

// InvalidArgument, naming the field, for options that the study's worker would
// refuse; OK without a study.
absl::Status CheckStudy(const v1::Study& study);

// The options of a study as in wire::Start: the JSON of the message, its fields
// spelt as in the .proto. Empty without a study.
std::string EncodeStudy(const v1::Study& study);
// The inverse; an empty message for an invalid `json`.
void DecodeStudy(jobs::JobKind kind, const std::string& json, v1::Study& study);

// Parses a study's worker's output (result.json) as the result of `kind`.
// DataLoss for a file that is not such a message.
absl::Status DecodeStudyResult(jobs::JobKind kind, const std::string& json,
                               v1::StudyResult& result);

}  // namespace mpsd::rpc
