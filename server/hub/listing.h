// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HUB_LISTING_H_
#define MPSD_SERVER_HUB_LISTING_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mpsd::hub {

// A file of a model at one commit.
struct HubFile {
  std::string path;  // '/' between parts
  int64_t size = 0;  // bytes
  // The SHA-256 of the content where the hub keeps the file with LFS, else the
  // file's git object id; the name of its blob in the cache.
  std::string hash;

  bool operator==(const HubFile&) const = default;
};

// The files that mpsd needs of a model, at the commit that a revision named.
struct Listing {
  std::string commit;
  std::vector<HubFile> files;  // by path

  const HubFile* Find(std::string_view path) const;
  int64_t TotalBytes() const;
};

// Reads what a hub answers for a model, and chooses config, tokenizer and
// weights: model.safetensors, or its shards. FailedPrecondition where the
// answer is none of a hub, or the model has no config.json or no safetensors
// weights; DataLoss where the hub tells of a file no size or no hash, or tells
// of it twice.
absl::StatusOr<Listing> ParseListing(std::string_view json);

// Leaves of the weights the shards that the index
// (model.safetensors.index.json) names. FailedPrecondition where the index
// cannot be read, or names one that the hub does not have.
absl::Status KeepShards(std::string_view index, Listing& listing);

inline constexpr char kConfig[] = "config.json";
inline constexpr char kIndex[] = "model.safetensors.index.json";

}  // namespace mpsd::hub

#endif  // MPSD_SERVER_HUB_LISTING_H_
