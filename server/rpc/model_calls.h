// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "mpsd/v1/models.pb.h"
#include "server/access/rules.h"
#include "server/jobs/job_reader.h"
#include "server/models/model_book.h"
#include "server/rpc/access_calls.h"
#include "server/rpc/gate.h"
#include "server/rpc/streams.h"
#include "server/store/blob_store.h"

namespace mpsd::rpc {

// The calls of ModelService; errors as in the proto. `blobs` are those that the
// caller may use.
absl::Status PushModel(models::ModelBook& book, jobs::JobReader& reader,
                       jobs::Blobs& blobs, const UserAccounts& accounts,
                       const v1::PushModelRequest& request, const Call& call,
                       v1::PushModelResponse& response);
// Hides others' use of a model from callers who may not read their jobs.
absl::Status ListModels(models::ModelBook& book, jobs::JobReader& reader,
                        const access::Rights& rights,
                        const v1::ListModelsRequest& request,
                        v1::ListModelsResponse& response);
absl::Status RemoveModel(models::ModelBook& book, const access::Rights& rights,
                         const v1::RemoveModelRequest& request,
                         v1::RemoveModelResponse& response);

// Pull: begins or joins the pull at the first call of Next, and reports its
// progress, at last with the model that jobs get under the name. `limits`: the
// caller's.
std::unique_ptr<Source<v1::PullModelProgress>> MakePullSource(
    models::ModelBook& book, jobs::JobReader& reader, models::Puller& puller,
    const access::Rights& rights, const jobs::UserLimits& limits,
    const v1::PullModelRequest& request, Wake wake);
absl::Status CancelPull(models::Puller& puller, const access::Rights& rights,
                        const v1::CancelPullRequest& request);

}  // namespace mpsd::rpc
