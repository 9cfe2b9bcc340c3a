// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/find_blobs.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/rpc/check.h"

namespace mpsd::rpc {

absl::Status FindBlobs(jobs::BlobUploads& blobs, const std::string& user,
                       const v1::FindBlobsRequest& request,
                       v1::FindBlobsResponse& response) {
  if (request.sha256().size() > kMaxBlobNames) {
    return absl::InvalidArgumentError(
        absl::StrCat("sha256: has ", request.sha256().size(),
                     " entries, at most ", kMaxBlobNames, " are allowed"));
  }
  for (int i = 0; i < request.sha256().size(); ++i) {
    RETURN_IF_ERROR(
        CheckSha256(absl::StrCat("sha256[", i, "]"), request.sha256(i)));
  }
  for (const std::string& sha256 : request.sha256()) {
    if (blobs.Has(sha256)) {
      response.add_present(sha256);
    } else if (const int64_t kept = blobs.KeptBytes(user, sha256)) {
      v1::FindBlobsResponse::Partial& partial = *response.add_partial();
      partial.set_sha256(sha256);
      partial.set_size_bytes(kept);
    }
  }
  return absl::OkStatus();
}

}  // namespace mpsd::rpc
