// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_STUDY_CODEC_H_
#define MPSD_SERVER_RPC_STUDY_CODEC_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "mpsd/v1/jobs.pb.h"
#include "server/jobs/job.h"

namespace mpsd::rpc {

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

#endif  // MPSD_SERVER_RPC_STUDY_CODEC_H_
