// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_NAMED_FILE_STORE_H_
#define MPSD_SERVER_STORE_NAMED_FILE_STORE_H_

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "server/jobs/blob_store.h"
#include "server/jobs/named_files.h"
#include "server/store/database.h"

namespace mpsd::store {

// jobs::NamedFiles over SQLite, a row each, and FOLDER/ID as a further hard
// link to the blob, which keeps the blob from being collected. The rows are
// authoritative: the link comes before its row and goes after it, and Open
// removes links without one. Where the file system has no hard links, no blob
// is collected either.
class NamedFileStore final : public jobs::NamedFiles {
 public:
  // Creates `folder` if needed. The borrowed objects must outlive the store.
  static absl::StatusOr<std::unique_ptr<NamedFileStore>> Open(
      Database& database, const jobs::BlobStore& blobs,
      std::filesystem::path folder);

  absl::Status Insert(const jobs::NamedFile& file) override;
  absl::StatusOr<jobs::NamedFile> Get(const std::string& owner,
                                      const std::string& id) override;
  absl::StatusOr<std::vector<jobs::NamedFile>> List(const std::string& owner,
                                                    const Page& page) override;
  absl::Status Remove(const std::string& owner, const std::string& id) override;

 private:
  NamedFileStore(Database& database, const jobs::BlobStore& blobs,
                 std::filesystem::path folder)
      : database_(database), blobs_(blobs), folder_(std::move(folder)) {}
  absl::Status RemoveStrays();
  absl::Status Link(const jobs::NamedFile& file);
  absl::Status InsertRow(const jobs::NamedFile& file);

  Database& database_;
  const jobs::BlobStore& blobs_;
  const std::filesystem::path folder_;
};

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_NAMED_FILE_STORE_H_
