// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_BLOB_STORE_H_
#define MPSD_SERVER_STORE_BLOB_STORE_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/jobs/blob_store.h"
#include "server/store/database.h"
#include "server/store/disk_room.h"

namespace mpsd::store {

// Blobs as files FOLDER/ab/<sha256> ("ab" its first two digits), read-only once
// there, and one row each in table blobs. The files are the truth: a blob is
// written to FOLDER/incoming/, verified, fsynced and only then renamed, and
// Open makes the rows follow the files. The jobs that use a blob are its other
// hard links; when one of them came or went, and when it was asked for, is the
// time of its inode's last change.
class BlobStore : public jobs::BlobUploads {
 public:
  // Creates `folder` if need be and removes what broken-off uploads left. Only
  // one BlobStore may use a folder at a time. `database` must outlive it.
  // Uploads leave `min_free_bytes` of the disk free.
  static absl::StatusOr<std::unique_ptr<BlobStore>> Open(
      Database& database, std::filesystem::path folder,
      int64_t min_free_bytes = 0);

  // Removes the blobs that no job in `jobs_dir` has a link to and that were not
  // uploaded, asked for or unlinked within `grace`, so that a submission whose
  // FindBlobs or Upload found a blob finds it at Submit. None where the file
  // system has no hard links between the two. Returns the bytes given back.
  absl::StatusOr<int64_t> Collect(const std::filesystem::path& jobs_dir,
                                  absl::Duration grace);

  bool Has(const std::string& sha256) override;
  std::string PathOf(const std::string& sha256) const override;
  absl::StatusOr<std::unique_ptr<jobs::BlobWriter>> Begin(
      const std::string& sha256, int64_t size_bytes) override;
  std::unique_ptr<jobs::BlobBatch> BeginBatch() override;

 private:
  BlobStore(Database& database, std::filesystem::path folder,
            int64_t min_free_bytes)
      : database_(database),
        folder_(std::move(folder)),
        room_(folder_, min_free_bytes) {}
  // Makes table blobs say what lies in the folder.
  absl::Status MatchRows();
  absl::Status Forget(const std::vector<std::string>& gone);

  Database& database_;
  const std::filesystem::path folder_;
  DiskRoom room_;
  // Held while one blob is kept, placed or removed: whoever was told that it is
  // there finds it.
  absl::Mutex names_;
};

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_BLOB_STORE_H_
