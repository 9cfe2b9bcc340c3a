// SPDX-License-Identifier: Apache-2.0
#include "tests/client/fake_daemon.h"

#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/time/clock.h"
#include "mpsd/v1/access.grpc.pb.h"
#include "mpsd/v1/artifacts.grpc.pb.h"
#include "mpsd/v1/daemon.grpc.pb.h"
#include "mpsd/v1/jobs.grpc.pb.h"
#include "mpsd/v1/models.grpc.pb.h"
#include "mpsd/v1/runbook.grpc.pb.h"

namespace mpsd::client {

// Asks each call over the port who it is.
class FakeDaemon::TokenCheck final : public grpc::AuthMetadataProcessor {
 public:
  explicit TokenCheck(FakeDaemon* daemon) : d_(*daemon) {}
  bool IsBlocking() const override { return false; }
  Status Process(const InputMetadata& metadata, grpc::AuthContext*,
                 OutputMetadata*, OutputMetadata*) override {
    const auto value = [&](const char* name) -> std::string {
      const auto found = metadata.find(name);
      if (found == metadata.end()) return "";
      return {found->second.data(), found->second.size()};
    };
    absl::MutexLock lock(&d_.token_mutex_);
    const std::string said = value("authorization");
    d_.data_.authorizations.emplace(value(":path"), said);
    const std::string& wanted = d_.data_.authorization;
    if (wanted.empty() || said == wanted) return Status::OK;
    return Status(grpc::StatusCode::UNAUTHENTICATED, "no such token");
  }

 private:
  FakeDaemon& d_;
};

template <typename Service>
class FakeDaemon::Part : public Service {
 public:
  explicit Part(FakeDaemon* daemon) : d_(*daemon) {}

 protected:
  FakeDaemon& d_;
};

class FakeDaemon::Jobs final : public Part<v1::JobService::Service> {
 public:
  using Part::Part;
  Status Submit(Context* context, const v1::SubmitRequest* request,
                v1::SubmitResponse* response) override {
    absl::MutexLock lock(&d_.mutex_);
    d_.data_.submit_deadlines.push_back(context->deadline());
    if (Status s = d_.Failure("Submit"); !s.ok()) return s;
    const std::string& key = request->idempotency_key();
    if (d_.data_.made >= d_.data_.most_made && !d_.data_.keys.contains(key)) {
      return {grpc::StatusCode::RESOURCE_EXHAUSTED, "ann has 2 jobs queued"};
    }
    d_.data_.submitted.push_back(*request);
    *response->mutable_job() = d_.data_.jobs.front();
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
  Status GetRecord(Context*, const v1::GetRecordRequest* request,
                   v1::GetRecordResponse* response) override {
    absl::MutexLock lock(&d_.mutex_);
    return d_.Record("GetRecord", request->id(), response);
  }
  Status Cancel(Context*, const v1::CancelRequest* request,
                v1::Job* job) override {
    absl::MutexLock lock(&d_.mutex_);
    d_.data_.cancelled.push_back(*request);
    return d_.Answer("Cancel", request->id(), job);
  }
  Status Hold(Context*, const v1::HoldRequest* request, v1::Job* job) override {
    absl::MutexLock lock(&d_.mutex_);
    d_.data_.held.push_back(*request);
    return d_.Answer("Hold", request->id(), job);
  }
  Status Release(Context*, const v1::ReleaseRequest* request,
                 v1::Job* job) override {
    absl::MutexLock lock(&d_.mutex_);
    d_.data_.released.push_back(request->id());
    return d_.Answer("Release", request->id(), job);
  }
  Status Move(Context*, const v1::MoveRequest* request, v1::Job* job) override {
    absl::MutexLock lock(&d_.mutex_);
    d_.data_.moved.push_back(*request);
    return d_.Answer("Move", request->id(), job);
  }
  Status Delete(Context*, const v1::DeleteRequest* request,
                v1::DeleteResponse* response) override {
    absl::MutexLock lock(&d_.mutex_);
    if (Status s = d_.Failure("Delete"); !s.ok()) return s;
    const v1::Job* job = d_.Find(request->id());
    if (job == nullptr) return NoJob(request->id());
    if (job->pinned()) {
      return Status(grpc::StatusCode::FAILED_PRECONDITION,
                    "it is pinned\x1b[2J");
    }
    response->set_freed_bytes(1'500'000);
    if (request->dry_run()) return Status::OK;
    std::erase_if(d_.data_.jobs, [&](const v1::Job& one) {
      return one.id() == request->id();
    });
    return Status::OK;
  }
  Status Pin(Context*, const v1::PinRequest* request, v1::Job* job) override {
    return SetPinned(request->id(), true, job);
  }
  Status Unpin(Context*, const v1::UnpinRequest* request,
               v1::Job* job) override {
    return SetPinned(request->id(), false, job);
  }
  Status FindJobs(Context*, const v1::FindJobsRequest* request,
                  v1::FindJobsResponse* response) override {
    absl::MutexLock lock(&d_.mutex_);
    if (Status s = d_.Failure("FindJobs"); !s.ok()) return s;
    d_.data_.found.push_back(*request);
    const std::string& text = request->id_part();
    const auto matches =
        [&, part = absl::AsciiStrToUpper(text)](const v1::Job& job) {
          return job.name() == text ||
                 (part.size() >= 4 &&
                  (job.id().starts_with(part) || job.id().ends_with(part)));
        };
    for (const v1::Job& job : d_.data_.jobs) {
      if (!matches(job)) continue;
      if (response->jobs_size() == d_.data_.most_found) {
        response->set_more(true);
        break;
      }
      *response->add_jobs() = job;
    }
    for (const v1::Job& job : d_.data_.past) {
      if (request->past() && matches(job)) *response->add_jobs() = job;
    }
    return Status::OK;
  }
  Status Retry(Context*, const v1::RetryRequest* request,
               v1::Job* job) override {
    absl::MutexLock lock(&d_.mutex_);
    const Status status = d_.Answer("Retry", request->id(), job);
    if (status.ok()) d_.data_.retried.push_back(*request);
    return status;
  }
  Status List(Context*, const v1::ListJobsRequest* request,
              v1::ListJobsResponse* response) override {
    absl::MutexLock lock(&d_.mutex_);
    if (Status s = d_.Failure("List"); !s.ok()) return s;
    d_.data_.listed.push_back(*request);
    std::vector<v1::Job> jobs = request->past() ? d_.data_.past : d_.data_.jobs;
    if (d_.data_.filters_states) {
      std::erase_if(jobs, [&](const v1::Job& job) {
        return std::count(request->states().begin(), request->states().end(),
                          job.state()) == 0;
      });
    }
    size_t at =
        request->page_token().empty() ? 0 : std::stoul(request->page_token());
    const size_t end = std::min<size_t>(
        jobs.size(), at + std::min(request->page_size(), d_.data_.page_size));
    for (; at < end; ++at) *response->add_jobs() = jobs[at];
    if (end < jobs.size()) {
      response->set_next_page_token(std::to_string(end));
    }
    if (request->count()) {
      response->set_total(static_cast<int64_t>(jobs.size()));
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
  Status GetSubmission(Context*, const v1::GetSubmissionRequest* request,
                       v1::SubmitRequest* answer) override {
    absl::MutexLock lock(&d_.mutex_);
    if (d_.Find(request->id()) == nullptr) return NoJob(request->id());
    *answer = d_.data_.requests[request->id()];
    return d_.Failure("GetSubmission");
  }
  Status Queue(Context*, const v1::QueueRequest*,
               v1::QueueResponse* response) override {
    absl::MutexLock lock(&d_.mutex_);
    *response = d_.data_.queue;
    return d_.Failure("Queue");
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
  Status SetPinned(const std::string& id, bool pinned, v1::Job* answer) {
    absl::MutexLock lock(&d_.mutex_);
    if (v1::Job* job = d_.Find(id); job != nullptr) job->set_pinned(pinned);
    return d_.Answer("", id, answer);
  }
};

class FakeDaemon::Artifacts final : public Part<v1::ArtifactService::Service> {
 public:
  using Part::Part;
  Status FindBlobs(Context*, const v1::FindBlobsRequest* request,
                   v1::FindBlobsResponse* response) override {
    absl::MutexLock lock(&d_.mutex_);
    if (Status s = d_.Failure("FindBlobs"); !s.ok()) return s;
    d_.data_.Find(*request, *response);
    return Status::OK;
  }
  Status Upload(Context*, grpc::ServerReader<v1::UploadRequest>* reader,
                v1::UploadResponse* response) override {
    absl::MutexLock lock(&d_.mutex_);
    if (Status s = d_.Failure("Upload"); !s.ok()) return s;
    return d_.data_.Take(*reader, *response);
  }
  Status UploadBatch(Context*,
                     grpc::ServerReader<v1::UploadBatchRequest>* reader,
                     v1::UploadBatchResponse* response) override {
    absl::MutexLock lock(&d_.mutex_);
    ++d_.data_.batches;
    if (Status s = d_.Failure("UploadBatch"); !s.ok()) return s;
    return d_.data_.TakeBatch(*reader, *response);
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
};

class FakeDaemon::Daemon final : public Part<v1::DaemonService::Service> {
 public:
  using Part::Part;
  Status Info(Context*, const v1::InfoRequest*,
              v1::InfoResponse* response) override {
    absl::MutexLock lock(&d_.mutex_);
    *response = d_.data_.info;
    return d_.Failure("Info");
  }
  Status Drain(Context*, const v1::DrainRequest*, v1::DrainResponse*) override {
    absl::MutexLock lock(&d_.mutex_);
    return d_.Failure("Drain");
  }
  Status Undrain(Context*, const v1::UndrainRequest*,
                 v1::UndrainResponse*) override {
    absl::MutexLock lock(&d_.mutex_);
    return d_.Failure("Undrain");
  }
  Status PlanCollection(Context*, const v1::PlanCollectionRequest*,
                        v1::PlanCollectionResponse* response) override {
    absl::MutexLock lock(&d_.mutex_);
    *response = d_.data_.plan;
    return Status::OK;
  }
  Status Collect(Context*, const v1::CollectRequest*,
                 v1::CollectResponse* response) override {
    absl::MutexLock lock(&d_.mutex_);
    if (Status s = d_.Failure("Collect"); !s.ok()) return s;
    ++d_.data_.collections;
    *response = d_.data_.collected;
    return Status::OK;
  }
};

class FakeDaemon::Access final : public Part<v1::AccessService::Service> {
 public:
  using Part::Part;
  Status WhoAmI(Context*, const v1::WhoAmIRequest*,
                v1::WhoAmIResponse* response) override {
    absl::MutexLock lock(&d_.mutex_);
    *response = d_.data_.who;
    return d_.Failure("WhoAmI");
  }
  Status CreateToken(Context*, const v1::CreateTokenRequest* request,
                     v1::CreateTokenResponse* response) override {
    absl::MutexLock lock(&d_.mutex_);
    d_.data_.tokens_asked.push_back(*request);
    v1::Token& token = *response->mutable_token();
    token.set_id("0a1b2c3d4e5f");
    token.set_user(request->user());
    token.set_role(request->role());
    token.set_note(request->note());
    if (request->has_expire_time()) {
      *token.mutable_expire_time() = request->expire_time();
    }
    d_.data_.tokens.insert(d_.data_.tokens.begin(), token);
    response->set_secret("mpsd_secret");
    return d_.Failure("CreateToken");
  }
  Status ListTokens(Context*, const v1::ListTokensRequest*,
                    v1::ListTokensResponse* response) override {
    absl::MutexLock lock(&d_.mutex_);
    for (const v1::Token& token : d_.data_.tokens) {
      *response->add_tokens() = token;
    }
    return d_.Failure("ListTokens");
  }
  Status RevokeToken(Context*, const v1::RevokeTokenRequest* request,
                     v1::RevokeTokenResponse* response) override {
    absl::MutexLock lock(&d_.mutex_);
    response->set_ended_streams(2);
    if (std::erase_if(d_.data_.tokens, [&](const v1::Token& token) {
          return token.id() == request->id();
        }) == 0) {
      return {grpc::StatusCode::NOT_FOUND, "id: there is no such token"};
    }
    return d_.Failure("RevokeToken");
  }
  Status ListAudit(Context*, const v1::ListAuditRequest* request,
                   v1::ListAuditResponse* response) override {
    absl::MutexLock lock(&d_.mutex_);
    d_.data_.audited.push_back(*request);
    size_t i = std::stoul("0" + request->page_token());
    const size_t end = i + std::min(request->page_size(), d_.data_.page_size);
    while (i < std::min(end, d_.data_.audit.size())) {
      *response->add_entries() = d_.data_.audit[i++];
    }
    if (i < d_.data_.audit.size()) {
      response->set_next_page_token(std::to_string(i));
    }
    return d_.Failure("ListAudit");
  }
};

class FakeDaemon::Models final : public Part<v1::ModelService::Service> {
 public:
  using Part::Part;
  Status ListModels(Context*, const v1::ListModelsRequest* request,
                    v1::ListModelsResponse* response) override {
    absl::MutexLock lock(&d_.mutex_);
    if (request->name().find(' ') != std::string::npos) {
      return Status(grpc::StatusCode::INVALID_ARGUMENT,
                    "name: '" + request->name() + "' is none");
    }
    for (const v1::Model& model : data_.listed) {
      if (request->name().empty() || model.name() == request->name()) {
        *response->add_models() = model;
      }
    }
    return d_.Failure("ListModels");
  }
  Status Push(Context*, const v1::PushModelRequest* request,
              v1::PushModelResponse* response) override {
    absl::MutexLock lock(&d_.mutex_);
    data_.pushed.push_back(*request);
    if (Status s = d_.Failure("Push"); !s.ok()) {
      d_.data_.fail.erase("Push");
      return s;
    }
    v1::Model& model = *response->mutable_model();
    for (const v1::PushModelRequest::File& file : request->files()) {
      if (!d_.data_.blobs.contains(file.sha256())) {
        return Status(grpc::StatusCode::FAILED_PRECONDITION,
                      "files: " + file.path() + " has not been uploaded");
      }
      model.set_size_bytes(model.size_bytes() + file.size_bytes());
    }
    model.set_name(request->name());
    model.set_family("llama");
    data_.listed.push_back(model);
    return Status::OK;
  }
  Status Pull(Context* context, const v1::PullModelRequest* request,
              grpc::ServerWriter<v1::PullModelProgress>* writer) override {
    std::vector<v1::PullModelProgress> news;
    Status end;
    bool waits;
    {
      absl::MutexLock lock(&d_.mutex_);
      if (data_.pull_requests.size() < data_.pulls.size()) {
        news = data_.pulls[data_.pull_requests.size()];
      }
      data_.pull_requests.push_back(*request);
      end = d_.Failure("Pull");
      d_.data_.fail.erase("Pull");
      waits = data_.pulls_wait;
    }
    for (const v1::PullModelProgress& one : news) writer->Write(one);
    while (waits && !context->IsCancelled()) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    return end;
  }
  Status CancelPull(Context*, const v1::CancelPullRequest* request,
                    v1::CancelPullResponse*) override {
    absl::MutexLock lock(&d_.mutex_);
    data_.cancelled.push_back(*request);
    return d_.Failure("CancelPull");
  }
  Status RemoveModel(Context*, const v1::RemoveModelRequest* request,
                     v1::RemoveModelResponse* response) override {
    absl::MutexLock lock(&d_.mutex_);
    if (Status s = d_.Failure("RemoveModel"); !s.ok()) return s;
    for (auto it = data_.listed.begin(); it != data_.listed.end(); ++it) {
      if (it->name() != request->name()) continue;
      response->set_freed_bytes(it->size_bytes());
      data_.listed.erase(it);
      data_.removed.push_back(request->name());
      return Status::OK;
    }
    return Status(grpc::StatusCode::NOT_FOUND, "no such model");
  }

 private:
  Data::Models& data_ = d_.data_.models;
};

class FakeDaemon::Runbook final : public Part<v1::RunbookService::Service> {
 public:
  using Part::Part;
  Status Diagnose(Context*, const v1::DiagnoseRequest* request,
                  v1::Diagnosis* response) override {
    absl::MutexLock lock(&d_.mutex_);
    data_.asked.push_back(*request);
    std::vector<v1::Diagnosis>& answers = data_.diagnoses;
    if (!answers.empty()) *response = answers.front();
    if (answers.size() > 1) answers.erase(answers.begin());
    return d_.Failure("Diagnose");
  }
  Status Plan(Context* context, const v1::PlanRequest* request,
              grpc::ServerWriter<v1::PlanEvent>* writer) override {
    std::function<void(Context*)> on_plan;
    {
      absl::MutexLock lock(&d_.mutex_);
      data_.plan_requests.push_back(*request);
      if (data_.busy-- > 0) {
        return Status(grpc::StatusCode::UNAVAILABLE,
                      "mpsd makes 2 plans at a time, and as many are under "
                      "way: plan again in a minute");
      }
      for (const v1::PlanEvent& event : data_.plan_events) writer->Write(event);
      on_plan = data_.on_plan;
    }
    if (on_plan) on_plan(context);
    absl::MutexLock lock(&d_.mutex_);
    return d_.Failure("Plan");
  }
  Status GetStudyResult(Context*, const v1::GetStudyResultRequest* request,
                        v1::StudyResult* response) override {
    absl::MutexLock lock(&d_.mutex_);
    *response = data_.study_result;
    response->set_job_id(request->id());
    return d_.Failure("GetStudyResult");
  }

 private:
  Data::Runbook& data_ = d_.data_.runbook;
};

struct FakeDaemon::Services {
  explicit Services(FakeDaemon* fake) : d(fake) {}

  FakeDaemon* const d;
  Jobs jobs{d};
  Artifacts artifacts{d};
  Daemon daemon{d};
  Access access{d};
  Models models{d};
  Runbook runbook{d};
};

FakeDaemon::FakeDaemon(
    std::string socket,
    std::shared_ptr<grpc::ServerCredentials> port_credentials)
    : socket_(std::move(socket)),
      credentials_(std::move(port_credentials)),
      services_(std::make_unique<Services>(this)) {
  if (credentials_ != nullptr) {
    credentials_->SetAuthMetadataProcessor(std::make_shared<TokenCheck>(this));
  }
  Start();
}

FakeDaemon::~FakeDaemon() { Stop(); }

void FakeDaemon::Start() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket_,
                           grpc::InsecureServerCredentials());
  if (credentials_ != nullptr) {
    builder.AddListeningPort("127.0.0.1:" + std::to_string(port_), credentials_,
                             &port_);
  }
  builder.RegisterService(&services_->jobs);
  builder.RegisterService(&services_->artifacts);
  builder.RegisterService(&services_->daemon);
  builder.RegisterService(&services_->access);
  builder.RegisterService(&services_->models);
  builder.RegisterService(&services_->runbook);
  server_ = builder.BuildAndStart();
}

FakeDaemon::Status FakeDaemon::Record(const std::string& method,
                                      const std::string& id,
                                      v1::GetRecordResponse* response) {
  if (Status s = Failure(method); !s.ok()) return s;
  const v1::Job* job = Find(id);
  for (const v1::Job& past : data_.past) {
    if (past.id() == id) job = &past;
  }
  if (job == nullptr) return NoJob(id);
  *response->mutable_job() = *job;
  *response->mutable_record() = data_.records[id];
  return Status::OK;
}

void FakeDaemon::Stop() {
  if (server_ != nullptr) server_->Shutdown();
  server_.reset();
}

void FakeDaemon::Kill() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
}

void FakeDaemon::Sync() {
  absl::MutexLock lock(&mutex_);
  absl::MutexLock token_lock(&token_mutex_);
}

FakeDaemon::Status FakeDaemon::NoJob(const std::string& id) {
  return Status(grpc::StatusCode::NOT_FOUND, "there is no job " + id);
}

FakeDaemon::Status FakeDaemon::Failure(const std::string& method) {
  const auto found = data_.fail.find(method);
  return found == data_.fail.end() ? Status::OK : found->second;
}

v1::Job* FakeDaemon::Find(const std::string& id) {
  for (v1::Job& job : data_.jobs) {
    if (job.id() == id) return &job;
  }
  return nullptr;
}

FakeDaemon::Status FakeDaemon::Answer(const std::string& method,
                                      const std::string& id, v1::Job* answer) {
  if (Status status = Failure(method); !status.ok()) return status;
  const v1::Job* job = Find(id);
  if (job == nullptr) return NoJob(id);
  *answer = *job;
  return Status::OK;
}

FakeDaemon::Status FakeDaemon::Idle(Context* context) {
  const auto on_idle = data_.on_idle;
  mutex_.Unlock();
  on_idle();
  while (!context->IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
  mutex_.Lock();
  return Status::CANCELLED;
}

}  // namespace mpsd::client
