// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_BLOB_STORE_H_
#define MPSD_SERVER_STORE_BLOB_STORE_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/jobs/blob_store.h"
#include "server/store/database.h"

namespace mpsd::store {

// Blobs as files FOLDER/ab/<sha256> ("ab" its first two digits), read-only once
// there, and one row each in table blobs. The files are the truth: a blob is
// written to FOLDER/incoming/, verified, fsynced and only then renamed, and
// Open makes the rows follow the files.
class BlobStore : public jobs::BlobUploads {
 public:
  // Creates `folder` if need be and removes what broken-off uploads left. Only
  // one BlobStore may use a folder at a time. `database` must outlive it.
  static absl::StatusOr<std::unique_ptr<BlobStore>> Open(
      Database& database, std::filesystem::path folder);

  bool Has(const std::string& sha256) override;
  std::string PathOf(const std::string& sha256) const override;
  absl::StatusOr<std::unique_ptr<jobs::BlobWriter>> Begin(
      const std::string& sha256, int64_t size_bytes) override;

 private:
  BlobStore(Database& database, std::filesystem::path folder)
      : database_(database), folder_(std::move(folder)) {}
  // Makes table blobs say what lies in the folder.
  absl::Status MatchRows();

  Database& database_;
  const std::filesystem::path folder_;
};

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_BLOB_STORE_H_
