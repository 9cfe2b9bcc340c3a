// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CLIENT_FAKE_DAEMON_H_
#define MPSD_TESTS_CLIENT_FAKE_DAEMON_H_

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "core/base/sha256.h"
#include "mpsd/v1/artifacts.grpc.pb.h"
#include "mpsd/v1/daemon.grpc.pb.h"
#include "mpsd/v1/jobs.grpc.pb.h"

namespace mpsd::client {

// A daemon out of plain data, on a unix socket. Tests fill the data before a
// call and read it after; nothing here schedules or trains. Calls are answered
// one at a time.
class FakeDaemon {
 public:
  struct Data {
    std::vector<v1::Job> jobs;                                // newest first
    std::map<std::string, std::vector<v1::JobEvent>> events;  // by job
    std::map<std::string, std::string> logs;
    std::map<std::string, std::vector<v1::Checkpoint>> checkpoints;
    std::vector<v1::DownloadResponse> download;
    std::vector<v1::DownloadResponse> manifest;  // sent to who asks for it
    v1::InfoResponse info;
    std::map<std::string, std::string> blobs;  // by hash
    int uploads = 0;                           // of blobs
    int batches = 0;                           // calls of UploadBatch
    std::vector<v1::SubmitRequest> submitted;
    std::vector<std::chrono::system_clock::time_point> submit_deadlines;
    std::set<std::string> keys;
    int made = 0;  // jobs, by Submit
    // What Submit ends with though the job is made, call by call; OK: it is
    // idle (on_idle) until the connection breaks.
    std::vector<grpc::Status> lost;
    std::vector<std::string> retried;
    std::vector<v1::WatchRequest> watched;
    std::vector<v1::ListJobsRequest> listed;
    std::vector<v1::FindJobsRequest> found;
    std::vector<v1::CancelRequest> cancelled;
    int most_found = 20;
    std::vector<v1::DownloadRequest> downloaded;
    // The status a method ends with, by its name; "Watch" after its events.
    std::map<std::string, grpc::Status> fail;
    // Watch ends with UNAVAILABLE before the event of this sequence, once.
    int64_t break_watch_at = 0;
    // Runs where Watch or a following Logs has sent all there is; then the
    // stream stays open until the client leaves.
    std::function<void()> on_idle;
    int page_size = 500;
  };

  explicit FakeDaemon(std::string socket) : socket_(std::move(socket)) {
    Start();
  }
  ~FakeDaemon() { Stop(); }

  void Start() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket_,
                             grpc::InsecureServerCredentials());
    builder.RegisterService(&jobs_);
    builder.RegisterService(&artifacts_);
    builder.RegisterService(&daemon_);
    server_ = builder.BuildAndStart();
  }
  void Stop() {
    if (server_ != nullptr) server_->Shutdown();
    server_.reset();
  }
  // Breaks every connection off, whatever is under way.
  void Kill() {
    server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
  }

  Data& data() { return data_; }

  // What the test wrote is seen by the calls that follow, and what calls wrote
  // by the test.
  void Sync() { absl::MutexLock lock(&mutex_); }

 private:
  using Context = grpc::ServerContext;
  using Status = grpc::Status;

  static Status NoJob(const std::string& id) {
    return Status(grpc::StatusCode::NOT_FOUND, "there is no job " + id);
  }

  Status Failure(const std::string& method) {
    auto it = data_.fail.find(method);
    return it == data_.fail.end() ? Status::OK : it->second;
  }

  v1::Job* Find(const std::string& id) {
    for (v1::Job& job : data_.jobs) {
      if (job.id() == id) return &job;
    }
    return nullptr;
  }

  Status Answer(const std::string& method, const std::string& id,
                v1::Job* answer) {
    if (Status status = Failure(method); !status.ok()) return status;
    const v1::Job* job = Find(id);
    if (job == nullptr) return NoJob(id);
    *answer = *job;
    return Status::OK;
  }

  // Without the lock: the test may go on meanwhile.
  Status Idle(Context* context) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const auto on_idle = data_.on_idle;
    mutex_.Unlock();
    on_idle();
    while (!context->IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
    mutex_.Lock();
    return Status::CANCELLED;
  }

  class Jobs final : public v1::JobService::Service {
   public:
    explicit Jobs(FakeDaemon* daemon) : d_(*daemon) {}

    Status Submit(Context* context, const v1::SubmitRequest* request,
                  v1::SubmitResponse* response) override {
      absl::MutexLock lock(&d_.mutex_);
      d_.data_.submit_deadlines.push_back(context->deadline());
      if (Status s = d_.Failure("Submit"); !s.ok()) return s;
      d_.data_.submitted.push_back(*request);
      *response->mutable_job() = d_.data_.jobs.front();
      const std::string& key = request->idempotency_key();
      response->set_existed(!key.empty() && !d_.data_.keys.insert(key).second);
      if (!response->existed()) ++d_.data_.made;
      if (!d_.data_.lost.empty()) {
        const Status lost = d_.data_.lost.front();
        d_.data_.lost.erase(d_.data_.lost.begin());
        return lost.ok() ? d_.Idle(context) : lost;
      }
      return Status::OK;
    }
    Status Get(Context*, const v1::GetJobRequest* request,
               v1::Job* job) override {
      absl::MutexLock lock(&d_.mutex_);
      return d_.Answer("Get", request->id(), job);
    }
    Status Cancel(Context*, const v1::CancelRequest* request,
                  v1::Job* job) override {
      absl::MutexLock lock(&d_.mutex_);
      d_.data_.cancelled.push_back(*request);
      return d_.Answer("Cancel", request->id(), job);
    }
    Status Delete(Context*, const v1::DeleteRequest* request,
                  v1::DeleteResponse* response) override {
      absl::MutexLock lock(&d_.mutex_);
      if (Status s = d_.Failure("Delete"); !s.ok()) return s;
      if (d_.Find(request->id()) == nullptr) return NoJob(request->id());
      std::erase_if(d_.data_.jobs, [&](const v1::Job& job) {
        return job.id() == request->id();
      });
      response->set_freed_bytes(1'500'000);
      return Status::OK;
    }
    Status FindJobs(Context*, const v1::FindJobsRequest* request,
                    v1::FindJobsResponse* response) override {
      absl::MutexLock lock(&d_.mutex_);
      if (Status s = d_.Failure("FindJobs"); !s.ok()) return s;
      d_.data_.found.push_back(*request);
      const std::string& part = request->id_part();
      for (const v1::Job& job : d_.data_.jobs) {
        if (!job.id().starts_with(part) && !job.id().ends_with(part)) continue;
        if (response->jobs_size() == d_.data_.most_found) {
          response->set_more(true);
          break;
        }
        *response->add_jobs() = job;
      }
      return Status::OK;
    }
    Status Retry(Context*, const v1::RetryRequest* request,
                 v1::Job* job) override {
      absl::MutexLock lock(&d_.mutex_);
      const Status status = d_.Answer("Retry", request->id(), job);
      if (status.ok()) d_.data_.retried.push_back(request->id());
      return status;
    }
    Status List(Context*, const v1::ListJobsRequest* request,
                v1::ListJobsResponse* response) override {
      absl::MutexLock lock(&d_.mutex_);
      if (Status s = d_.Failure("List"); !s.ok()) return s;
      d_.data_.listed.push_back(*request);
      const std::vector<v1::Job>& jobs = d_.data_.jobs;
      size_t at =
          request->page_token().empty() ? 0 : std::stoul(request->page_token());
      const size_t end = std::min<size_t>(
          jobs.size(), at + std::min(request->page_size(), d_.data_.page_size));
      for (; at < end; ++at) *response->add_jobs() = jobs[at];
      if (end < jobs.size()) {
        response->set_next_page_token(std::to_string(end));
      }
      return Status::OK;
    }
    Status Watch(Context* context, const v1::WatchRequest* request,
                 grpc::ServerWriter<v1::JobEvent>* writer) override {
      absl::MutexLock lock(&d_.mutex_);
      d_.data_.watched.push_back(*request);
      if (d_.Find(request->id()) == nullptr) return NoJob(request->id());
      for (const v1::JobEvent& event : d_.data_.events[request->id()]) {
        if (event.sequence() <= request->after_sequence()) continue;
        if (event.sequence() == d_.data_.break_watch_at) {
          d_.data_.break_watch_at = 0;
          return Status(grpc::StatusCode::UNAVAILABLE, "stopping");
        }
        writer->Write(event);
      }
      if (d_.data_.on_idle) return d_.Idle(context);
      return d_.Failure("Watch");
    }
    Status Logs(Context* context, const v1::LogsRequest* request,
                grpc::ServerWriter<v1::LogChunk>* writer) override {
      absl::MutexLock lock(&d_.mutex_);
      if (d_.Find(request->id()) == nullptr) return NoJob(request->id());
      const std::string& log = d_.data_.logs[request->id()];
      constexpr size_t kPiece = 10;
      for (size_t at = request->offset_bytes(); at < log.size(); at += kPiece) {
        v1::LogChunk chunk;
        chunk.set_offset_bytes(static_cast<int64_t>(at));
        chunk.set_data(log.substr(at, kPiece));
        writer->Write(chunk);
      }
      if (request->follow() && d_.data_.on_idle) return d_.Idle(context);
      return d_.Failure("Logs");
    }
    Status Checkpoints(Context*, const v1::CheckpointsRequest* request,
                       v1::CheckpointsResponse* response) override {
      absl::MutexLock lock(&d_.mutex_);
      if (d_.Find(request->id()) == nullptr) return NoJob(request->id());
      for (const auto& c : d_.data_.checkpoints[request->id()]) {
        *response->add_checkpoints() = c;
      }
      return Status::OK;
    }

   private:
    FakeDaemon& d_;
  };

  class Artifacts final : public v1::ArtifactService::Service {
   public:
    explicit Artifacts(FakeDaemon* daemon) : d_(*daemon) {}

    Status FindBlobs(Context*, const v1::FindBlobsRequest* request,
                     v1::FindBlobsResponse* response) override {
      absl::MutexLock lock(&d_.mutex_);
      if (Status s = d_.Failure("FindBlobs"); !s.ok()) return s;
      for (const std::string& hash : request->sha256()) {
        if (d_.data_.blobs.count(hash) > 0) response->add_present(hash);
      }
      return Status::OK;
    }
    Status Upload(Context*, grpc::ServerReader<v1::UploadRequest>* reader,
                  v1::UploadResponse* response) override {
      absl::MutexLock lock(&d_.mutex_);
      if (Status s = d_.Failure("Upload"); !s.ok()) return s;
      v1::UploadRequest part;
      if (!reader->Read(&part) || !part.has_header()) {
        return Status(grpc::StatusCode::INVALID_ARGUMENT, "no header");
      }
      const v1::UploadRequest::Header header = part.header();
      std::string bytes;
      while (reader->Read(&part)) bytes += part.data();
      if (base::Sha256Hex(bytes) != header.sha256() ||
          static_cast<int64_t>(bytes.size()) != header.size_bytes()) {
        return Status(grpc::StatusCode::INVALID_ARGUMENT, "other hash");
      }
      d_.data_.blobs[header.sha256()] = bytes;
      ++d_.data_.uploads;
      response->set_sha256(header.sha256());
      return Status::OK;
    }
    Status UploadBatch(Context*,
                       grpc::ServerReader<v1::UploadBatchRequest>* reader,
                       v1::UploadBatchResponse* response) override {
      absl::MutexLock lock(&d_.mutex_);
      ++d_.data_.batches;
      if (Status s = d_.Failure("UploadBatch"); !s.ok()) return s;
      std::map<std::string, std::string> blobs;
      v1::UploadBatchRequest part;
      while (reader->Read(&part)) {
        for (const v1::UploadBatchRequest::Blob& blob : part.blobs()) {
          if (base::Sha256Hex(blob.data()) != blob.sha256()) {
            return Status(grpc::StatusCode::INVALID_ARGUMENT, "other hash");
          }
          blobs[blob.sha256()] = blob.data();
        }
      }
      d_.data_.blobs.insert(blobs.begin(), blobs.end());
      d_.data_.uploads += static_cast<int>(blobs.size());
      response->set_stored(static_cast<int>(blobs.size()));
      return Status::OK;
    }
    Status Download(Context*, const v1::DownloadRequest* request,
                    grpc::ServerWriter<v1::DownloadResponse>* writer) override {
      absl::MutexLock lock(&d_.mutex_);
      d_.data_.downloaded.push_back(*request);
      if (d_.Find(request->job_id()) == nullptr) {
        return NoJob(request->job_id());
      }
      const bool manifest = request->manifest();
      for (const v1::DownloadResponse& part :
           manifest ? d_.data_.manifest : d_.data_.download) {
        writer->Write(part);
      }
      return d_.Failure(manifest ? "Download of the manifest" : "Download");
    }

   private:
    FakeDaemon& d_;
  };

  class Daemon final : public v1::DaemonService::Service {
   public:
    explicit Daemon(FakeDaemon* daemon) : d_(*daemon) {}
    Status Info(Context*, const v1::InfoRequest*,
                v1::InfoResponse* response) override {
      absl::MutexLock lock(&d_.mutex_);
      *response = d_.data_.info;
      return d_.Failure("Info");
    }

   private:
    FakeDaemon& d_;
  };

  const std::string socket_;
  absl::Mutex mutex_;
  Data data_;
  Jobs jobs_{this};
  Artifacts artifacts_{this};
  Daemon daemon_{this};
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace mpsd::client

#endif  // MPSD_TESTS_CLIENT_FAKE_DAEMON_H_
