// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mpsd/v1/artifacts.pb.h"
#include "server/access/rules.h"
#include "server/jobs/user_limits.h"
#include "server/rpc/streams.h"
#include "server/store/blob_store.h"

namespace mpsd::rpc {

// What ArtifactService receives, and what of it the store has.

// The blobs as one caller sees them. If jobs are private, a blob that the
// caller has not sent counts as missing: otherwise its SHA-256 would reveal
// whether others have a file, and would let a job read the file. Once the
// caller sends it, the caller has it. The dependencies must outlive the object.
class SeenBlobs final : public jobs::Blobs {
 public:
  // `ledger` knows who sent what.
  SeenBlobs(store::BlobStore& blobs, jobs::UserLedger* ledger,
            access::Rights rights)
      : blobs_(blobs), ledger_(ledger), rights_(std::move(rights)) {}

  static bool MayUse(jobs::UserLedger* ledger, const access::Rights& rights,
                     const std::string& sha256) {
    if (!rights.sees_own_alone()) return true;
    return ledger->Holds(rights.caller().user, sha256).value_or(false);
  }

  // Asks the ledger first: the store keeps a requested blob longer.
  bool Has(const std::string& sha256) override {
    return MayUse(ledger_, rights_, sha256) && blobs_.Has(sha256);
  }
  std::string PathOf(const std::string& sha256) const override {
    return blobs_.PathOf(sha256);
  }
  // Where the caller's uploads go.
  store::BlobStore& store() const { return blobs_; }

 private:
  store::BlobStore& blobs_;
  jobs::UserLedger* const ledger_;
  const access::Rights rights_;
};

// Returns the requested blobs that the store has and those of which `user` sent
// the beginning, in the order of the request.
absl::Status FindBlobs(SeenBlobs& blobs, const std::string& user,
                       const v1::FindBlobsRequest& request,
                       v1::FindBlobsResponse& response);

// Upload: writes each message to the blob's file. The store keeps the received
// part of an interrupted stream, for `user`. For a blob that the store already
// has, it answers at once and leaves the rest of the stream unread. `claim`
// counts the blob for the user who sends it. The
// dependencies must outlive the sink.
std::unique_ptr<Sink<v1::UploadRequest>> MakeUploadSink(
    SeenBlobs blobs, std::string user, v1::UploadResponse& response,
    std::unique_ptr<jobs::UploadClaim> claim);

// UploadBatch: writes the blobs of each message, and flushes all of them
// together at the end of the stream.
std::unique_ptr<Sink<v1::UploadBatchRequest>> MakeBatchSink(
    SeenBlobs blobs, v1::UploadBatchResponse& response,
    std::unique_ptr<jobs::UploadClaim> claim);

}  // namespace mpsd::rpc
