// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_HASH_FILES_H_
#define MPSD_CLIENT_HASH_FILES_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "client/console.h"
#include "client/local_file.h"
#include "core/base/clock.h"

namespace mpsd::client {

struct HashOptions {
  // Holds the hashes that were computed before (HashCachePath()); empty: every
  // file is read.
  std::filesystem::path cache;
  bool rehash = false;  // read every file, and keep what came out
  // Called with the bytes that were read so far and those that are to be read,
  // by one thread at a time.
  std::function<void(int64_t done, int64_t total)> progress = nullptr;
  const base::Clock* clock = &base::Clock::Real();
};

// As verbs hash: with the user's cache, and a progress bar on a terminal.
// `console` must outlive the options.
HashOptions Hashing(const Console& console, bool rehash);

// Fills in sha256 and size_bytes of each file, on as many threads as the
// machine has cores. Files whose hash is in the cache and that did not change
// since are not read. NotFound … for the first file that cannot be read, naming
// its path. A cache that cannot be read or written is done without.
absl::Status HashFiles(std::vector<LocalFile>& files,
                       const HashOptions& options);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_HASH_FILES_H_
