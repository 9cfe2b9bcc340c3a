// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/sha256.h"

namespace mpsd::store {
class BlobStore;
class Database;
}  // namespace mpsd::store

namespace mpsd::jobs {

// Whether `text` is 64 lower-case hexadecimal digits.
inline bool IsSha256(std::string_view text) {
  return text.size() == 64 &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// The content-addressed files that users may use, each named by the SHA-256
// of its bytes. A name that is not a SHA-256 is never present and has the empty
// path. Thread-safe.
class Blobs {
 public:
  virtual ~Blobs() = default;
  // Calling Has for a blob keeps it: the store removes an unused blob only a
  // grace period after its last upload, its last Has, or the deletion of its
  // last job.
  virtual bool Has(const std::string& sha256) = 0;
  virtual std::string PathOf(const std::string& sha256) const = 0;
};

struct UnusedBlob {
  std::string sha256;
  int64_t size_bytes = 0;
  std::string sender = "";  // of an interrupted upload; else empty
};

// Uploads to which no job and nothing else in the state folder has a link, and
// interrupted uploads, if not sent or requested recently: what
// store::BlobStore::Collect removes. Thread-safe.
class UnusedBlobs {
 public:
  // The largest first, at most `limit`; those beyond are counted in `more` and
  // `more_bytes`.
  struct Found {
    std::vector<UnusedBlob> blobs;
    int64_t more = 0, more_bytes = 0;
  };
  struct Removed {
    int64_t blobs = 0, bytes = 0;
    int64_t parts = 0, part_bytes = 0;  // of interrupted uploads
  };

  // `blobs` must outlive it.
  UnusedBlobs(store::BlobStore& blobs, std::filesystem::path jobs_dir,
              absl::Duration grace)
      : blobs_(blobs), jobs_dir_(std::move(jobs_dir)), grace_(grace) {}

  absl::StatusOr<Found> Find(size_t limit);
  absl::StatusOr<Removed> Remove();

 private:
  store::BlobStore& blobs_;
  const std::filesystem::path jobs_dir_;
  const absl::Duration grace_;
};

}  // namespace mpsd::jobs

namespace mpsd::store {

// Shares the free bytes of a disk among the uploads in progress. An upload
// whose announced size does not fit is refused at its beginning, but reserves
// only the next kAheadBytes: an announcement alone takes no room from others.
// `min_free_bytes` stay free for the database, logs and checkpoints.
// Thread-safe. The room must outlive its reservations.
class DiskRoom {
 public:
  static constexpr int64_t kAheadBytes = 64 << 20;

  DiskRoom(std::filesystem::path folder, int64_t min_free_bytes)
      : folder_(std::move(folder)), min_free_bytes_(min_free_bytes) {}

  // Bytes that an upload will write. One thread at a time.
  class Reservation {
   public:
    Reservation(DiskRoom& room, int64_t bytes) : room_(room), left_(bytes) {}
    ~Reservation() { Used(ahead_); }
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;
    // Called before `bytes` are written, which are among the announced ones.
    // ResourceExhausted if they would take the room of others.
    absl::Status Prepare(int64_t bytes);
    // Reports that `bytes` more of the reservation are on the disk.
    void Used(int64_t bytes);

   private:
    friend class DiskRoom;
    DiskRoom& room_;
    int64_t left_;       // announced, and not written yet
    int64_t ahead_ = 0;  // of these, reserved
  };

  // ResourceExhausted if the disk has no space for the bytes.
  absl::StatusOr<std::unique_ptr<Reservation>> Reserve(int64_t bytes);

 private:
  absl::Status CheckFree(int64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::filesystem::path folder_;
  const int64_t min_free_bytes_;
  absl::Mutex mutex_;
  int64_t reserved_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The received part of a blob whose upload was interrupted.
struct BlobPart {
  std::string user;  // who sent it
  std::string sha256;
  int64_t size_bytes = 0;
  absl::Time last_write;
};

// The parts of blobs, each in a file FOLDER/<sha256>.<user's name in
// hexadecimal digits>. The files are authoritative: a restarted daemon finds
// what arrived before it was killed. Nothing is flushed, since the whole blob
// is verified before it gets its name. One upload at a time writes to a part.
// Thread-safe; must outlive its holds.
class PartialBlobs {
 public:
  struct Options {
    // Parts of one user; the oldest is removed for a new one.
    size_t most_of_user = 32;
    // A hold that received nothing for this long may lose its part to the next
    // upload: a client whose connection is gone begins again before the daemon
    // notices.
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
    // if another upload has taken over the part.
    absl::Status BeginWrite();
    // Called after a write of that many bytes.
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

  // The bytes that an upload may skip; 0 if there are none, or another upload
  // writes to the part.
  int64_t KeptBytes(const std::string& user, const std::string& sha256);
  // The bytes of all parts of a user, without those written by an upload in
  // progress, whose announced size counts instead.
  int64_t BytesOf(const std::string& user);

  // The part for an upload that resumes at `offset_bytes`, as a file that
  // exists; an offset of 0 empties it. Null if no part is available: another
  // upload of the same user writes to it, or the user has too many. OutOfRange
  // if the part does not end at the offset.
  absl::StatusOr<std::unique_ptr<Hold>> Take(const std::string& user,
                                             const std::string& sha256,
                                             int64_t offset_bytes);

  // Removes the parts that received nothing within `grace`, and those whose
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
    int64_t holder = 0;  // a Hold's number; 0: none
    bool writing = false;
    absl::Duration heard = absl::ZeroDuration();  // monotonic, of the holder
  };

  PartialBlobs(std::filesystem::path folder, Options options)
      : folder_(std::move(folder)), options_(options) {}
  absl::Status Find();
  std::filesystem::path PathOf(const Key& key) const;
  bool IsFree(const Part& part) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The part, if the hold of that number still has it; else null.
  Part* Held(const Key& key, int64_t number)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the user may have one more, for which an older one may be removed.
  bool MakeRoom(const std::string& user) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Prepare(const Key& key, bool is_new, int64_t size_bytes) const;

  const std::filesystem::path folder_;
  const Options options_;
  absl::Mutex mutex_;
  std::map<Key, Part> parts_ ABSL_GUARDED_BY(mutex_);
  int64_t holds_ ABSL_GUARDED_BY(mutex_) = 0;
};

// One blob during its upload, in a new file or in a part that is kept when the
// upload is interrupted. Commit verifies the whole file, flushes it and moves
// it to its place. A writer destroyed before Commit leaves nothing behind,
// except one of BlobStore::Resume. One thread at a time.
class BlobWriter {
 public:
  struct Plan {
    std::filesystem::path final_path;  // …/ab/<sha256>
    int64_t size_bytes = 0;
    int64_t offset_bytes = 0;  // bytes that the part has already
    std::unique_ptr<DiskRoom::Reservation> room;  // for the bytes that arrive
    std::unique_ptr<PartialBlobs::Hold> part;     // null: nothing is kept
    std::filesystem::path temporary;  // without a part: a file to make
  };

  // `names`: the store's lock of that name. Both must outlive the writer.
  static absl::StatusOr<std::unique_ptr<BlobWriter>> Begin(Database& database,
                                                           absl::Mutex& names,
                                                           Plan plan);
  ~BlobWriter();
  BlobWriter(const BlobWriter&) = delete;
  BlobWriter& operator=(const BlobWriter&) = delete;

  // Reads again a piece of what an earlier upload left; true if there is
  // another one to read. Called until false before Append and Commit. Returns
  // errors of the disk.
  absl::StatusOr<bool> CatchUp();
  // InvalidArgument if there are more bytes than the client announced;
  // ResourceExhausted if the disk is full; Aborted once another writer of the
  // same user continues the blob.
  absl::Status Append(std::string_view bytes);
  // Once Commit returns OK the blob is stored durably. InvalidArgument if the
  // size or hash differs from the announced one. Called at most once.
  absl::Status Commit();

 private:
  BlobWriter(Database& database, absl::Mutex& names, Plan plan, int fd);
  const std::filesystem::path& path() const;
  // Writes all bytes; those that reached the disk are in `written`.
  absl::Status Write(std::string_view bytes, int64_t& written);
  // `status`, for which the received bytes are discarded.
  absl::Status Drop(absl::Status status);
  absl::Status Verify();
  absl::Status Place();

  Database& database_;
  absl::Mutex& names_;
  const Plan plan_;
  const int fd_;
  base::Sha256 hash_;
  int64_t hashed_ = 0;
  int64_t written_;
  bool committed_ = false;
};

// Many small blobs during their upload. Writes them as files in `incoming` and
// closes each at once. Commit flushes the files together, renames them into the
// store's folders, flushes the folders together and writes all rows in one
// transaction. A daemon that dies in between leaves some of the blobs, each
// complete. A batch destroyed before Commit leaves nothing behind. One thread
// at a time.
class BlobBatch {
 public:
  // The dependencies must outlive the batch. `names`: the store's lock of that
  // name.
  BlobBatch(Database& database, const BlobStore& store, absl::Mutex& names,
            DiskRoom& room, std::filesystem::path incoming)
      : database_(database),
        store_(store),
        names_(names),
        room_(room),
        incoming_(std::move(incoming)) {}
  ~BlobBatch();
  BlobBatch(const BlobBatch&) = delete;
  BlobBatch& operator=(const BlobBatch&) = delete;

  // InvalidArgument if `bytes` have another hash; ResourceExhausted if the disk
  // is full. The same blob may be added again.
  absl::Status Add(const std::string& sha256, std::string_view bytes);
  // Once Commit returns OK the blobs are stored durably. Called at most once.
  absl::Status Commit();

 private:
  struct Staged {
    std::filesystem::path path;
    int64_t size_bytes = 0;
  };

  absl::Status Place();
  absl::Status Record();

  Database& database_;
  const BlobStore& store_;
  absl::Mutex& names_;
  DiskRoom& room_;
  const std::filesystem::path incoming_;
  std::map<std::string, Staged> staged_;  // by hash
  bool committed_ = false;                // Commit was called
};

// Keeps blobs as read-only files FOLDER/ab/<sha256> ("ab" being the first two
// digits), with a row each in table blobs. The files are authoritative: a blob
// is written to FOLDER/incoming/ or FOLDER/partial/, verified, fsynced and only
// then renamed, and Open() makes the rows match the files. A job that uses a
// blob has a further hard link to the file. The inode's change time (ctime) is
// when a link was last added or removed, or the blob was last requested.
class BlobStore final : public jobs::Blobs {
 public:
  // Creates `folder` if needed and removes the remains of interrupted uploads.
  // Only one BlobStore may use a folder at a time. `database` must outlive the
  // store. Uploads leave `min_free_bytes` of the disk free.
  static absl::StatusOr<std::unique_ptr<BlobStore>> Open(
      Database& database, std::filesystem::path folder,
      int64_t min_free_bytes = 0);

  // Removes the parts of blobs that received nothing within `grace`, and the
  // blobs to which no job in `jobs_dir`, and nothing else, has a link and that
  // were not uploaded, requested or unlinked within `grace`, so that Submit
  // finds every blob that the submission's FindBlobs or Upload found. Removes
  // no blob if the file system has no hard links between the two folders.
  absl::StatusOr<jobs::UnusedBlobs::Removed> Collect(
      const std::filesystem::path& jobs_dir, absl::Duration grace);
  // Those that Collect would remove now, the largest `limit` of them.
  absl::StatusOr<jobs::UnusedBlobs::Found> FindUnused(
      const std::filesystem::path& jobs_dir, absl::Duration grace,
      size_t limit);

  // The received parts of interrupted uploads: their bytes for one user, and
  // each part to which no upload writes.
  int64_t KeptBytesOf(const std::string& user) { return parts_->BytesOf(user); }
  std::vector<BlobPart> Parts() { return parts_->Idle(); }

  bool Has(const std::string& sha256) override;
  std::string PathOf(const std::string& sha256) const override;
  // InvalidArgument for a name that is not a SHA-256 or a negative size;
  // ResourceExhausted if the disk has no space for `size_bytes` in addition to
  // what the other writers have reserved (DiskRoom). Writers of the same blob
  // do not disturb each other.
  absl::StatusOr<std::unique_ptr<BlobWriter>> Begin(const std::string& sha256,
                                                    int64_t size_bytes);
  std::unique_ptr<BlobBatch> BeginBatch();
  // As Begin, but if the writer is destroyed before Commit, what has arrived is
  // kept for this user for a time, unless it cannot be the beginning of the
  // blob. The data begins at `offset_bytes`, 0 to start over. OutOfRange if
  // that is not KeptBytes. A second concurrent writer of the same blob and user
  // keeps nothing; one that was silent for long gives way.
  absl::StatusOr<std::unique_ptr<BlobWriter>> Resume(const std::string& user,
                                                     const std::string& sha256,
                                                     int64_t size_bytes,
                                                     int64_t offset_bytes);
  // How much of the blob is kept for the user.
  int64_t KeptBytes(const std::string& user, const std::string& sha256) {
    return parts_->KeptBytes(user, sha256);
  }

 private:
  BlobStore(Database& database, std::filesystem::path folder,
            int64_t min_free_bytes, std::unique_ptr<PartialBlobs> parts)
      : database_(database),
        folder_(std::move(folder)),
        room_(folder_, min_free_bytes),
        parts_(std::move(parts)) {}
  absl::StatusOr<std::unique_ptr<BlobWriter>> Write(
      const std::string& sha256, int64_t size_bytes, int64_t offset_bytes,
      std::unique_ptr<PartialBlobs::Hold> part);
  // Makes table blobs match the files in the folder.
  absl::Status MatchRows();
  absl::Status Forget(const std::vector<std::string>& gone);
  // The parts that received nothing since.
  std::vector<BlobPart> IdleParts(absl::Time before);

  Database& database_;
  const std::filesystem::path folder_;
  DiskRoom room_;
  const std::unique_ptr<PartialBlobs> parts_;
  // Held while one blob is touched, placed or removed, so that a reported blob
  // exists.
  absl::Mutex names_;
};

}  // namespace mpsd::store
