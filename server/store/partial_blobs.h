// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_PARTIAL_BLOBS_H_
#define MPSD_SERVER_STORE_PARTIAL_BLOBS_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"

namespace mpsd::store {

// What came of a blob whose upload broke off.
struct BlobPart {
  std::string user;  // who sent it
  std::string sha256;
  int64_t size_bytes = 0;
  absl::Time last_write;
};

// The parts of blobs, each in a file FOLDER/<sha256>.<user's name in
// hexadecimal digits>. The files are authoritative: a daemon that was killed
// finds what came until then. Nothing is flushed, since the whole blob is
// verified before it gets its name. One upload at a time writes to a part.
// Thread-safe; must outlive its holds.
class PartialBlobs {
 public:
  struct Options {
    // Parts of one user; the one that was written first goes for a new one.
    size_t most_of_user = 32;
    // A hold to which nothing came for so long may lose its part to the next
    // upload: a client whose connection is gone begins again before the daemon
    // knows it.
    absl::Duration silence = absl::Seconds(10);
    const base::Clock* clock = &base::Clock::Real();
  };

  // One upload's right to write to a part. What was written is kept when the
  // hold is destroyed, unless Drop or Placed was called. One thread at a time.
  class Hold {
   public:
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    const std::filesystem::path& path() const { return path_; }
    // Called before bytes are written to the file or the file is moved; Aborted
    // where another upload has taken the part over.
    absl::Status BeginWrite();
    // Called after a write of so many bytes.
    void EndWrite(int64_t bytes);
    // Removes the part.
    void Drop();
    // The file has got another name.
    void Placed();

   private:
    friend class PartialBlobs;
    using Key = std::pair<std::string, std::string>;  // user, sha256
    Hold(PartialBlobs& parts, Key key, std::filesystem::path path,
         int64_t number)
        : parts_(parts),
          key_(std::move(key)),
          path_(std::move(path)),
          number_(number) {}

    PartialBlobs& parts_;
    const Key key_;
    const std::filesystem::path path_;
    const int64_t number_;
  };

  // Creates `folder` if needed and finds the parts in it.
  static absl::StatusOr<std::unique_ptr<PartialBlobs>> Open(
      std::filesystem::path folder) {
    return Open(std::move(folder), Options());
  }
  static absl::StatusOr<std::unique_ptr<PartialBlobs>> Open(
      std::filesystem::path folder, Options options);

  // The bytes that an upload may leave out; 0 where there are none, or another
  // upload writes to the part.
  int64_t KeptBytes(const std::string& user, const std::string& sha256);
  // The bytes of all parts of a user. What an upload under way has written so
  // far do not count: what it announced does.
  int64_t BytesOf(const std::string& user);

  // The part for an upload that goes on at `offset_bytes`, as a file that
  // exists; an offset of 0 empties it. Null where no part can be had: another
  // upload of the same user writes to it, or the user has too many. OutOfRange
  // where the part does not end at the offset.
  absl::StatusOr<std::unique_ptr<Hold>> Take(const std::string& user,
                                             const std::string& sha256,
                                             int64_t offset_bytes);

  // Removes the parts to which nothing came within `grace`, and those whose
  // blob `is_whole`.
  struct Freed {
    int64_t parts = 0;
    int64_t bytes = 0;
  };
  Freed Collect(absl::Duration grace,
                const std::function<bool(const std::string&)>& is_whole);
  // Those to which no upload writes.
  std::vector<BlobPart> Idle();

 private:
  using Key = Hold::Key;
  struct Part {
    int64_t size_bytes = 0;
    int64_t counted_bytes = 0;  // for BytesOf
    absl::Time last_write;
    int64_t holder = 0;  // a Hold's number; 0: nobody
    bool writing = false;
    absl::Duration heard = absl::ZeroDuration();  // monotonic, of the holder
  };

  PartialBlobs(std::filesystem::path folder, Options options)
      : folder_(std::move(folder)), options_(options) {}
  absl::Status Find();
  std::filesystem::path PathOf(const Key& key) const;
  bool IsFree(const Part& part) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The part, where the hold of that number has it still; else null.
  Part* Held(const Key& key, int64_t number)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the user may have one more, for which an older one may go.
  bool MakeRoom(const std::string& user) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Prepare(const Key& key, bool is_new, int64_t size_bytes) const;

  const std::filesystem::path folder_;
  const Options options_;
  absl::Mutex mutex_;
  std::map<Key, Part> parts_ ABSL_GUARDED_BY(mutex_);
  int64_t holds_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_PARTIAL_BLOBS_H_
