// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HUB_CACHE_FOLDER_H_
#define MPSD_SERVER_HUB_CACHE_FOLDER_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/hub/cache_part.h"
#include "server/hub/listing.h"

namespace mpsd::hub {

// A model's folder in the Hugging Face cache, written so that Transformers and
// huggingface_hub find the model there:
//
//   blobs/HASH              a file's content, HASH.incomplete on its way
//   snapshots/COMMIT/PATH   a link to the blob
//   refs/REVISION           the commit that a branch or a tag names
//   ../.locks/FOLDER/HASH.lock
//
// A snapshot gets its config.json last, and a ref its commit after that: nobody
// finds a model of which a file is missing.
class CacheFolder {
 public:
  // Makes the folders of a model that passed CheckHubId. InvalidArgument where
  // the cache has another model whose name differs by case alone, which were
  // the same folder on many a disk.
  static absl::StatusOr<CacheFolder> Open(const std::filesystem::path& cache,
                                          const std::string& id);

  // Whether the blob is there, with its size.
  bool Has(const HubFile& file) const;
  // The bytes of it that are there, by earlier pulls.
  int64_t BytesOf(const HubFile& file) const;
  absl::StatusOr<std::unique_ptr<CachePart>> OpenPart(
      const HubFile& file, const CachePart::Stop& stop = {}) const;
  std::filesystem::path BlobOf(const HubFile& file) const;

  // Removes parts (blobs/HASH.incomplete) of any model that nobody wrote to
  // since `before`: of pulls that were cancelled, or failed, and not asked for
  // again. What is written now stays, whoever writes. Returns how many went.
  static int RemoveOldParts(const std::filesystem::path& cache,
                            absl::Time before);

  // Makes the snapshot of the listing's commit, and the ref where `revision` is
  // not the commit itself. All blobs are there.
  absl::Status Publish(const Listing& listing,
                       const std::string& revision) const;

 private:
  CacheFolder(std::filesystem::path folder, std::filesystem::path locks)
      : folder_(std::move(folder)), locks_(std::move(locks)) {}
  absl::Status Link(const std::filesystem::path& snapshot,
                    const HubFile& file) const;

  std::filesystem::path folder_, locks_;
};

}  // namespace mpsd::hub

#endif  // MPSD_SERVER_HUB_CACHE_FOLDER_H_
