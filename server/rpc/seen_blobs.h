// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_SEEN_BLOBS_H_
#define MPSD_SERVER_RPC_SEEN_BLOBS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "server/access/rules.h"
#include "server/jobs/blob_store.h"
#include "server/jobs/user_limits.h"

namespace mpsd::rpc {

// The blobs as one caller sees them. If jobs are private, a blob that the
// caller has not sent counts as missing: otherwise its SHA-256 would reveal
// whether others have a file, and would let a job read the file. Once the
// caller sends it, the caller has it. The dependencies must outlive the object.
class SeenBlobs final : public jobs::BlobUploads {
 public:
  // `ledger` knows who sent what; null: no sender is known.
  SeenBlobs(jobs::BlobUploads& blobs, jobs::UserLedger* ledger,
            access::Rights rights)
      : blobs_(blobs), ledger_(ledger), rights_(std::move(rights)) {}

  static bool MayUse(jobs::UserLedger* ledger, const access::Rights& rights,
                     const std::string& sha256) {
    if (!rights.sees_own_alone()) return true;
    return ledger != nullptr &&
           ledger->Holds(rights.caller().user, sha256).value_or(false);
  }

  // Asks the ledger first: the store keeps a requested blob longer.
  bool Has(const std::string& sha256) override {
    return MayUse(ledger_, rights_, sha256) && blobs_.Has(sha256);
  }
  std::string PathOf(const std::string& sha256) const override {
    return blobs_.PathOf(sha256);
  }
  absl::StatusOr<std::unique_ptr<jobs::BlobWriter>> Begin(
      const std::string& sha256, int64_t size_bytes) override {
    return blobs_.Begin(sha256, size_bytes);
  }
  std::unique_ptr<jobs::BlobBatch> BeginBatch() override {
    return blobs_.BeginBatch();
  }
  absl::StatusOr<std::unique_ptr<jobs::BlobWriter>> Resume(
      const std::string& user, const std::string& sha256, int64_t size_bytes,
      int64_t offset_bytes) override {
    return blobs_.Resume(user, sha256, size_bytes, offset_bytes);
  }
  int64_t KeptBytes(const std::string& user,
                    const std::string& sha256) override {
    return blobs_.KeptBytes(user, sha256);
  }

 private:
  jobs::BlobUploads& blobs_;
  jobs::UserLedger* const ledger_;
  const access::Rights rights_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_SEEN_BLOBS_H_
