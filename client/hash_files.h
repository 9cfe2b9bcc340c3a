// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_HASH_FILES_H_
#define MPSD_CLIENT_HASH_FILES_H_

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/console.h"
#include "core/base/clock.h"

namespace mpsd::client {

// A file of this machine that the daemon needs.
struct LocalFile {
  std::string path;             // the path in job.json
  std::filesystem::path local;  // the path on this machine
  std::string sha256;
  int64_t size_bytes = 0;
};

// Identifies a file and its version. Programs that set the time of modification
// cannot set back the change time (ctime).
struct FileMark {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t size_bytes = 0;
  int64_t modified_ns = 0;  // since 1970
  int64_t changed_ns = 0;

  bool operator==(const FileMark&) const = default;
};

FileMark MarkOf(const struct stat& info);

// Whether a change from `now` on gives the file another mark. A file system may
// count time in steps of up to two seconds, and a mark younger than a step, or
// in the future, may be the same after the change.
bool IsSettled(const FileMark& mark, absl::Time now);

// The SHA-256 of files when mpsctl last read them, in a private folder
// (contexts/private_folder.h) of its own. A cache that is damaged or not
// private counts as empty. Used by one thread at a time.
class HashCache {
 public:
  struct Bounds {
    size_t entries = 200'000;
    int64_t bytes = 64 << 20;  // of the cache's file
  };

  // The cache in `file`; an empty path stands for none.
  static HashCache Load(const std::filesystem::path& file) {
    return Load(file, Bounds());
  }
  static HashCache Load(const std::filesystem::path& file, Bounds bounds);

  // The hash of the file that had this path and this mark; nullopt if no such
  // file was read. `path` is absolute.
  std::optional<std::string> Find(const std::string& path, const FileMark& mark,
                                  absl::Time now);
  void Keep(const std::string& path, const FileMark& mark,
            std::string_view sha256, absl::Time now);
  // Replaces the file if anything changed. Drops the least recently used
  // entries beyond the bounds.
  absl::Status Save();

 private:
  struct Entry {
    FileMark mark;
    std::string sha256;
    int64_t used_s = 0;  // since 1970
  };

  HashCache(std::filesystem::path file, Bounds bounds)
      : file_(std::move(file)), bounds_(bounds) {}
  bool Read(std::string_view text);
  bool ReadLine(std::string_view line);

  std::filesystem::path file_;  // empty: none
  Bounds bounds_;
  std::unordered_map<std::string, Entry> entries_;  // by path
  bool changed_ = false;
};

// The cache's file: $XDG_CACHE_HOME/mpsctl/hashes, else
// $HOME/.cache/mpsctl/hashes; empty without either.
std::filesystem::path HashCachePath();

struct HashOptions {
  // Holds the hashes that were computed before (HashCachePath()); empty: every
  // file is read.
  std::filesystem::path cache;
  bool rehash = false;  // read every file, and store the hashes
  // Called with the bytes read so far and the total to read, by one thread at a
  // time.
  std::function<void(int64_t done, int64_t total)> progress = nullptr;
  const base::Clock* clock = &base::Clock::Real();
};

// The options of the verbs: the user's cache, and a progress bar on a terminal.
// `console` must outlive the options.
HashOptions Hashing(const Console& console, bool rehash);

// Fills in sha256 and size_bytes of each file, on as many threads as the
// machine has cores. Unchanged files whose hash is in the cache are not read.
// NotFound … for the first file that cannot be read, naming its path. A cache
// that cannot be read or written is not used.
absl::Status HashFiles(std::vector<LocalFile>& files,
                       const HashOptions& options);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_HASH_FILES_H_
