// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "tests/core/status_matchers.h"
#include "tests/server/in_process_daemon.h"
#include "tests/server/rpc/proto_text.h"

// What the tests of the API are written with.
namespace mpsd::rpc {

using absl::StatusCode;
using access::Role;
using jobs::ExitReason;
using jobs::State;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;
using testing_support::Access;
using testing_support::Api;
using testing_support::Artifacts;
using testing_support::ById;
using testing_support::DaemonApi;
using testing_support::Fails;
using testing_support::InProcessDaemon;
using testing_support::IsOk;
using testing_support::Jobs;
using testing_support::Models;
using testing_support::Ok;
using testing_support::Runbook;
using testing_support::ToStatus;

// A call of any method of any service: bytes to bytes. A stream's later
// messages are not read.
inline absl::StatusOr<std::string> CallBytes(const Api& api,
                                             const std::string& method,
                                             const std::string& request) {
  const grpc::Slice slice(request);
  const grpc::ByteBuffer in(&slice, 1);
  grpc::ByteBuffer out;
  grpc::ClientContext context;
  api.Prepare(context);
  absl::Status status;
  absl::Notification done;
  grpc::GenericStub stub(api.channel());
  stub.UnaryCall(&context, method, grpc::StubOptions(), &in, &out,
                 [&](const grpc::Status& answered) {
                   status = ToStatus(answered);
                   done.Notify();
                 });
  done.WaitForNotification();
  if (!status.ok()) return status;
  grpc::Slice whole;
  if (!out.DumpToSingleSlice(&whole).ok()) return "";  // a stream without any
  return std::string(whole.begin(), whole.end());
}

// The messages of an upload.
inline v1::UploadRequest Header(const std::string& sha256, int64_t size_bytes,
                                int64_t offset_bytes = 0) {
  v1::UploadRequest request;
  request.mutable_header()->set_sha256(sha256);
  request.mutable_header()->set_size_bytes(size_bytes);
  request.mutable_header()->set_offset_bytes(offset_bytes);
  return request;
}
inline v1::UploadRequest Data(const std::string& bytes) {
  v1::UploadRequest request;
  request.set_data(bytes);
  return request;
}

// One stream in progress of a caller.
template <typename Reader>
struct Open {
  grpc::ClientContext context;
  std::unique_ptr<Reader> stream;
};
using Watching = Open<grpc::ClientReader<v1::JobEvent>>;
inline std::unique_ptr<Watching> Watch(const Api& api, const std::string& id,
                                       int64_t after = 0) {
  auto open = std::make_unique<Watching>();
  api.Prepare(open->context);
  auto request = ById<v1::WatchRequest>(id);
  request.set_after_sequence(after);
  open->stream = api.jobs()->Watch(&open->context, request);
  return open;
}
struct Uploading : Open<grpc::ClientWriter<v1::UploadRequest>> {
  v1::UploadResponse response;
  absl::Status Finish() { return ToStatus(stream->Finish()); }
};
inline std::unique_ptr<Uploading> BeginUpload(const Api& api) {
  auto open = std::make_unique<Uploading>();
  api.Prepare(open->context);
  open->stream = api.artifacts()->Upload(&open->context, &open->response);
  return open;
}
// Sends the messages as long as the server takes them.
inline absl::StatusOr<v1::UploadResponse> Upload(
    const Api& api, const std::vector<v1::UploadRequest>& messages) {
  const auto upload = BeginUpload(api);
  for (const v1::UploadRequest& message : messages) {
    if (!upload->stream->Write(message)) break;
  }
  upload->stream->WritesDone();
  if (absl::Status status = upload->Finish(); !status.ok()) return status;
  return upload->response;
}

// Waits until so many uploads have a file of the blob store; of that user's
// kept ones, if a user is named.
inline void AwaitParts(const InProcessDaemon& daemon, int parts,
                       const std::string& user = "") {
  const auto count = [&] {
    int found = 0;
    for (const char* folder : {"partial", "incoming"}) {
      std::error_code gone;
      for (std::filesystem::directory_iterator file(
               daemon.folder / "blobs" / folder, gone);
           !gone && file != std::filesystem::directory_iterator();
           file.increment(gone)) {
        const std::string name = file->path().filename().string();
        if (user.empty() || name.ends_with(absl::BytesToHexString(user))) {
          ++found;
        }
      }
    }
    return found;
  };
  const absl::Time end = absl::Now() + absl::Minutes(1);
  while (count() != parts && absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(count(), parts);
}

// The address of a unix socket, for the system's calls.
inline sockaddr_un SocketName(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  path.copy(name.sun_path, sizeof(name.sun_path) - 1);
  return name;
}

// An audit that does with each request what a test wants, on the thread that
// carries the call: it fails, throws or hangs, as no store does on
// request. Keeps the outcomes. Thread-safe.
class FakeAudit final : public access::AuditLog {
 public:
  using OnBegin = std::function<absl::Status(const access::Request&)>;
  struct Ended {
    std::string method, made_job_id;
    absl::Status result;
  };

  absl::StatusOr<int64_t> Begin(const access::Request& request) override {
    OnBegin on_begin;
    {
      absl::MutexLock lock(&mutex_);
      ++begun_;
      on_begin = on_begin_;
    }
    if (on_begin) {
      if (absl::Status status = on_begin(request); !status.ok()) return status;
    }
    absl::MutexLock lock(&mutex_);
    methods_.push_back(request.method);
    return static_cast<int64_t>(methods_.size());
  }
  void End(int64_t entry, const absl::Status& result,
           const std::string& job_id) override {
    absl::MutexLock lock(&mutex_);
    ended_.push_back({methods_.at(entry - 1), job_id, result});
  }
  void Refused(const access::Request& request,
               const absl::Status& why) override {
    absl::MutexLock lock(&mutex_);
    ended_.push_back({request.method, "", why});
  }

  void OnEachBegin(OnBegin on_begin) {
    absl::MutexLock lock(&mutex_);
    on_begin_ = std::move(on_begin);
  }
  int begun() {
    absl::MutexLock lock(&mutex_);
    return begun_;
  }
  // Waits until so many calls have begun, or ended.
  void AwaitBegun(int calls) {
    Await([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return begun_ >= calls; });
  }
  std::vector<Ended> AwaitEnded(size_t calls) {
    Await([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return ended_.size() >= calls;
    });
    absl::MutexLock lock(&mutex_);
    return ended_;
  }

 private:
  void Await(const std::function<bool()>& reached) {
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(mutex_.AwaitWithTimeout(
        absl::Condition(
            +[](const std::function<bool()>* r) { return (*r)(); }, &reached),
        absl::Minutes(1)));
  }

  absl::Mutex mutex_;
  OnBegin on_begin_ ABSL_GUARDED_BY(mutex_);
  int begun_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> methods_ ABSL_GUARDED_BY(mutex_);
  std::vector<Ended> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::rpc
