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
#include "server/jobs/blob_store.h"

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
    return std::make_unique<Writer>(*this, sha256, size_bytes);
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
    Writer(FakeBlobs& store, std::string sha256, int64_t size_bytes)
        : store_(store), sha256_(std::move(sha256)), size_(size_bytes) {}
    ~Writer() override {
      absl::MutexLock lock(&store_.mutex_);
      --store_.open_;
    }
    absl::Status Append(std::string_view bytes) override {
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
  std::exception_ptr begin_exception_ ABSL_GUARDED_BY(mutex_);
  absl::Status begin_error_ ABSL_GUARDED_BY(mutex_);
  int open_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace mpsd::rpc

#endif  // MPSD_TESTS_SERVER_RPC_FAKE_BLOBS_H_
