// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_STUDY_CODEC_H_
#define MPSD_SERVER_RPC_STUDY_CODEC_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "mpsd/v1/jobs.pb.h"
#include "server/jobs/job.h"

namespace mpsd::rpc {

// The kind of the job that `request` asks for: that of its study, or what its
// field `kind` says. nullopt for a kind that only a newer client knows, and
// where the two say different things.
std::optional<jobs::JobKind> KindOf(const v1::SubmitRequest& request);

// InvalidArgument, naming the field, for options that the study's worker would
// refuse; OK without a study.
absl::Status CheckStudy(const v1::Study& study);

// The options of a study as wire::Start has them: the JSON of the message, its
// fields spelt as the .proto spells them. Empty without a study.
std::string EncodeStudy(const v1::Study& study);
// The other way; an empty message for a `json` that makes no sense.
void DecodeStudy(jobs::JobKind kind, const std::string& json, v1::Study& study);

// Reads what a study's worker wrote (result.json) as the result of `kind`.
// DataLoss for a file that is no such message.
absl::Status DecodeStudyResult(jobs::JobKind kind, const std::string& json,
                               v1::StudyResult& result);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_STUDY_CODEC_H_
