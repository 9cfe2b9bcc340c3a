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
#include "server/store/partial_blobs.h"

namespace mpsd::store {

// Keeps blobs as read-only files FOLDER/ab/<sha256> ("ab" being the first two
// digits), with a row each in table blobs. The files are authoritative: a blob
// is written to FOLDER/incoming/ or FOLDER/partial/, verified, fsynced and only
// then renamed, and Open() makes the rows match the files. A job that uses a
// blob has a further hard link to the file. The inode's change time (ctime)
// tells when a link was last added or removed, or when the blob was last asked
// for.
class BlobStore : public jobs::BlobUploads {
 public:
  // Creates `folder` if needed and removes the remains of interrupted uploads.
  // Only one BlobStore may use a folder at a time. `database` must outlive the
  // store. Uploads leave `min_free_bytes` of the disk free.
  static absl::StatusOr<std::unique_ptr<BlobStore>> Open(
      Database& database, std::filesystem::path folder,
      int64_t min_free_bytes = 0);

  // Removes the parts of blobs to which nothing came within `grace`, and the
  // blobs to which no job in `jobs_dir`, and nothing else, has a link and that
  // were not uploaded, asked for or unlinked within `grace`, so that Submit
  // finds every blob that the submission's FindBlobs or Upload found. Removes
  // no blob where the file system has no hard links between the two folders.
  absl::StatusOr<jobs::UnusedBlobs::Removed> Collect(
      const std::filesystem::path& jobs_dir, absl::Duration grace);
  // Those that Collect would remove now, the largest `limit` of them.
  absl::StatusOr<jobs::UnusedBlobs::Found> FindUnused(
      const std::filesystem::path& jobs_dir, absl::Duration grace,
      size_t limit);

  // What came of uploads that broke off: in bytes of one user, and each part to
  // which no upload writes.
  int64_t KeptBytesOf(const std::string& user) { return parts_->BytesOf(user); }
  std::vector<BlobPart> Parts() { return parts_->Idle(); }

  bool Has(const std::string& sha256) override;
  std::string PathOf(const std::string& sha256) const override;
  absl::StatusOr<std::unique_ptr<jobs::BlobWriter>> Begin(
      const std::string& sha256, int64_t size_bytes) override;
  std::unique_ptr<jobs::BlobBatch> BeginBatch() override;
  absl::StatusOr<std::unique_ptr<jobs::BlobWriter>> Resume(
      const std::string& user, const std::string& sha256, int64_t size_bytes,
      int64_t offset_bytes) override;
  int64_t KeptBytes(const std::string& user,
                    const std::string& sha256) override {
    return parts_->KeptBytes(user, sha256);
  }

 private:
  BlobStore(Database& database, std::filesystem::path folder,
            int64_t min_free_bytes, std::unique_ptr<PartialBlobs> parts)
      : database_(database),
        folder_(std::move(folder)),
        room_(folder_, min_free_bytes),
        parts_(std::move(parts)) {}
  absl::StatusOr<std::unique_ptr<jobs::BlobWriter>> Write(
      const std::string& sha256, int64_t size_bytes, int64_t offset_bytes,
      std::unique_ptr<PartialBlobs::Hold> part);
  // Makes table blobs match the files in the folder.
  absl::Status MatchRows();
  absl::Status Forget(const std::vector<std::string>& gone);
  // The parts to which nothing came since.
  std::vector<BlobPart> IdleParts(absl::Time before);

  Database& database_;
  const std::filesystem::path folder_;
  DiskRoom room_;
  const std::unique_ptr<PartialBlobs> parts_;
  // Held while one blob is touched, placed or removed, so that a caller that
  // was told of a blob finds it.
  absl::Mutex names_;
};

// What BlobStore::Collect removes, for retention.
class UnusedBlobs final : public jobs::UnusedBlobs {
 public:
  // `blobs` must outlive it.
  UnusedBlobs(BlobStore& blobs, std::filesystem::path jobs_dir,
              absl::Duration grace)
      : blobs_(blobs), jobs_dir_(std::move(jobs_dir)), grace_(grace) {}

  absl::StatusOr<Found> Find(size_t limit) override {
    return blobs_.FindUnused(jobs_dir_, grace_, limit);
  }
  absl::StatusOr<Removed> Remove() override {
    return blobs_.Collect(jobs_dir_, grace_);
  }

 private:
  BlobStore& blobs_;
  const std::filesystem::path jobs_dir_;
  const absl::Duration grace_;
};

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_BLOB_STORE_H_
