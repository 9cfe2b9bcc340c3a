// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_MODEL_CALLS_H_
#define MPSD_SERVER_RPC_MODEL_CALLS_H_

#include "absl/status/status.h"
#include "mpsd/v1/models.pb.h"
#include "server/jobs/blob_store.h"
#include "server/jobs/job_manager.h"
#include "server/models/model_book.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/user_accounts.h"

namespace mpsd::rpc {

// Implement ModelService.Push, ListModels and RemoveModel. `blobs` are those
// that the caller may use.
absl::Status PushModel(models::ModelBook& book, jobs::JobReader& reader,
                       jobs::BlobStore& blobs, const UserAccounts& accounts,
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

// Fills in the model that jobs get under this name; does not change `out` if
// there is none.
void FillModel(models::ModelBook& book, jobs::JobReader& reader,
               const access::Rights& rights, const std::string& name,
               v1::Model& out);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_MODEL_CALLS_H_
