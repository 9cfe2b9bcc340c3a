// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_RPC_FAKE_BLOBS_H_
#define MPSD_TESTS_SERVER_RPC_FAKE_BLOBS_H_

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "core/base/sha256.h"
#include "server/store/blob_store.h"

namespace mpsd::rpc {

// Blobs in memory. Thread-safe.
class FakeBlobs : public jobs::BlobUploads {
 public:
  bool Has(const std::string& sha256) override {
    absl::MutexLock lock(&mutex_);
    return blobs_.count(sha256) > 0;
  }
  std::string PathOf(const std::string& sha256) const override {
    return "/blobs/" + sha256;
  }
  absl::StatusOr<std::unique_ptr<jobs::BlobWriter>> Begin(
      const std::string& sha256, int64_t size_bytes) override {
    absl::MutexLock lock(&mutex_);
    if (begin_exception_) std::rethrow_exception(begin_exception_);
    if (!begin_error_.ok()) return begin_error_;
    ++open_;
    ++begun_;
    return std::make_unique<Writer>(*this, sha256, size_bytes);
  }

  // Goes on with what Keep was told.
  absl::StatusOr<std::unique_ptr<jobs::BlobWriter>> Resume(
      const std::string& user, const std::string& sha256, int64_t size_bytes,
      int64_t offset_bytes) override {
    if (offset_bytes == 0) return Begin(sha256, size_bytes);
    absl::MutexLock lock(&mutex_);
    const std::string kept = kept_[{user, sha256}];
    if (static_cast<int64_t>(kept.size()) != offset_bytes) {
      return absl::OutOfRangeError("offset_bytes: ask FindBlobs again");
    }
    ++open_;
    return std::make_unique<Writer>(*this, sha256, size_bytes, kept);
  }
  int64_t KeptBytes(const std::string& user,
                    const std::string& sha256) override {
    absl::MutexLock lock(&mutex_);
    const auto kept = kept_.find({user, sha256});
    return kept == kept_.end() ? 0 : static_cast<int64_t>(kept->second.size());
  }
  void Keep(const std::string& user, const std::string& sha256,
            const std::string& bytes) {
    absl::MutexLock lock(&mutex_);
    kept_[{user, sha256}] = bytes;
  }
  // From now on there is always more to read of what is kept.
  void CatchUpForever() {
    absl::MutexLock lock(&mutex_);
    forever_ = true;
  }
  // How often a writer was to read again what was kept.
  int caught_up() {
    absl::MutexLock lock(&mutex_);
    return caught_up_;
  }

  std::unique_ptr<jobs::BlobBatch> BeginBatch() override {
    absl::MutexLock lock(&mutex_);
    if (begin_exception_) std::rethrow_exception(begin_exception_);
    ++open_;
    return std::make_unique<Batch>(*this);
  }

  void Put(const std::string& bytes) {
    absl::MutexLock lock(&mutex_);
    blobs_[base::Sha256Hex(bytes)] = bytes;
  }
  std::string Bytes(const std::string& sha256) {
    absl::MutexLock lock(&mutex_);
    return blobs_[sha256];
  }
  void FailBegin(absl::Status error) {
    absl::MutexLock lock(&mutex_);
    begin_error_ = std::move(error);
  }
  void ThrowFromBegin(std::exception_ptr exception) {
    absl::MutexLock lock(&mutex_);
    begin_exception_ = std::move(exception);
  }
  // How often a writer began a blob.
  int begun() {
    absl::MutexLock lock(&mutex_);
    return begun_;
  }
  // False when writers are still open after a minute.
  bool AwaitNoWriters() {
    absl::MutexLock lock(&mutex_);
    const auto none = [&]()
                          ABSL_NO_THREAD_SAFETY_ANALYSIS { return open_ == 0; };
    return mutex_.AwaitWithTimeout(absl::Condition(&none), absl::Minutes(1));
  }
  bool AwaitWriter() {
    absl::MutexLock lock(&mutex_);
    const auto some = [&]()
                          ABSL_NO_THREAD_SAFETY_ANALYSIS { return open_ > 0; };
    return mutex_.AwaitWithTimeout(absl::Condition(&some), absl::Minutes(1));
  }

 private:
  class Writer : public jobs::BlobWriter {
   public:
    Writer(FakeBlobs& store, std::string sha256, int64_t size_bytes,
           std::string kept = "")
        : store_(store),
          sha256_(std::move(sha256)),
          size_(size_bytes),
          bytes_(std::move(kept)),
          behind_(bytes_.empty() ? 0 : 3) {}
    ~Writer() override {
      absl::MutexLock lock(&store_.mutex_);
      --store_.open_;
    }
    // As if what is kept had three pieces.
    absl::StatusOr<bool> CatchUp() override {
      absl::MutexLock lock(&store_.mutex_);
      ++store_.caught_up_;
      return --behind_ > 0 || store_.forever_;
    }
    absl::Status Append(std::string_view bytes) override {
      if (behind_ > 0) return absl::InternalError("not caught up");
      bytes_.append(bytes);
      if (static_cast<int64_t>(bytes_.size()) <= size_) {
        return absl::OkStatus();
      }
      return absl::InvalidArgumentError("more bytes than announced");
    }
    absl::Status Commit() override {
      if (static_cast<int64_t>(bytes_.size()) != size_) {
        return absl::InvalidArgumentError("another size than announced");
      }
      if (base::Sha256Hex(bytes_) != sha256_) {
        return absl::InvalidArgumentError("another hash than announced");
      }
      absl::MutexLock lock(&store_.mutex_);
      store_.blobs_[sha256_] = bytes_;
      return absl::OkStatus();
    }

   private:
    FakeBlobs& store_;
    const std::string sha256_;
    const int64_t size_;
    std::string bytes_;
    int behind_;
  };

  class Batch : public jobs::BlobBatch {
   public:
    explicit Batch(FakeBlobs& store) : store_(store) {}
    ~Batch() override {
      absl::MutexLock lock(&store_.mutex_);
      --store_.open_;
    }
    absl::Status Add(const std::string& sha256,
                     std::string_view bytes) override {
      if (base::Sha256Hex(bytes) != sha256) {
        return absl::InvalidArgumentError("another hash than announced");
      }
      added_[sha256] = bytes;
      return absl::OkStatus();
    }
    absl::Status Commit() override {
      absl::MutexLock lock(&store_.mutex_);
      store_.blobs_.insert(added_.begin(), added_.end());
      return absl::OkStatus();
    }

   private:
    FakeBlobs& store_;
    std::map<std::string, std::string> added_;
  };

  absl::Mutex mutex_;
  std::map<std::string, std::string> blobs_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<std::string, std::string>, std::string> kept_
      ABSL_GUARDED_BY(mutex_);  // by user and hash
  int caught_up_ ABSL_GUARDED_BY(mutex_) = 0;
  bool forever_ ABSL_GUARDED_BY(mutex_) = false;
  std::exception_ptr begin_exception_ ABSL_GUARDED_BY(mutex_);
  absl::Status begin_error_ ABSL_GUARDED_BY(mutex_);
  int open_ ABSL_GUARDED_BY(mutex_) = 0;
  int begun_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace mpsd::rpc

#endif  // MPSD_TESTS_SERVER_RPC_FAKE_BLOBS_H_
