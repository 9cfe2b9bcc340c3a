// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_FIND_BLOBS_H_
#define MPSD_SERVER_RPC_FIND_BLOBS_H_

#include <string>

#include "absl/status/status.h"
#include "mpsd/v1/artifacts.pb.h"
#include "server/jobs/blob_store.h"

namespace mpsd::rpc {

// Implements ArtifactService.FindBlobs: returns the requested blobs that the
// store has and those of which `user` sent the beginning, in the order of the
// request.
absl::Status FindBlobs(jobs::BlobUploads& blobs, const std::string& user,
                       const v1::FindBlobsRequest& request,
                       v1::FindBlobsResponse& response);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_FIND_BLOBS_H_
