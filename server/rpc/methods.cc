// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/methods.h"

#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "core/base/clock.h"
#include "core/base/limits.h"
#include "server/rpc/downloads.h"
#include "server/rpc/job_calls.h"
#include "server/rpc/job_streams.h"
#include "server/rpc/list_calls.h"
#include "server/rpc/model_calls.h"
#include "server/rpc/runbook_calls.h"
#include "server/rpc/uploads.h"

namespace mpsd::rpc {
namespace {

constexpr int kStreamThreads = 3;
// One thread removes the folders of deleted jobs, one after the other, however
// long a large folder takes.
constexpr int kDeletionThreads = 1;
// One push or removal of a model waits for the other anyway, and neither for a
// job that is submitted or deleted. Lists of models have a thread, too, for one
// may read the files of all of them.
constexpr int kModelThreads = 1;
// One, for lists have one connection to the database: no one who asks for one
// job waits until fifty people have looked at all of them.
constexpr int kListThreads = 1;
// One, so that of fifty who ask for the doctor one starts a worker, and the
// others get what that one found.
constexpr int kDiagnosisThreads = 1;
constexpr int kDownloadThreads = 3;
// Most of the upload threads wait for the drive.
constexpr int kUploadThreads = 4;
// The greatest requests of the methods that take more than kRequestBytes, in
// bytes: digests and paths, with some for numbers and the like.
constexpr size_t kFindBlobsBytes = 2 * 64 * limits::kBlobNames;
constexpr size_t kPushBytes =
    limits::kFilesOfModel * (limits::kPathBytes + 128);
// Up to Options::max_receive_bytes: limits::kInputs of limits::kPathsBytes.
constexpr size_t kSubmissionBytes = 32 << 20;
constexpr size_t kUploadBytes = limits::kChunkBytes + kRequestBytes;
constexpr size_t kBatchBytes = 4 * limits::kChunkBytes;

// Adds the row of a handler that is a function, whose arguments are chosen by
// their types.
template <typename Request, typename Response, typename... Arguments>
void Row(const Backend& with, MethodTable& table, access::Method method,
         CallHost& host, absl::Status (*handle)(Arguments...),
         size_t most_bytes = kRequestBytes) {
  table.Unary<Request, Response>(
      method, host,
      [&with, handle](Call& call, Request& request, Response& response) {
        call.limits = with.accounts.LimitsOf(call.rights);
        const Options& options = with.options;
        const std::tuple<
            jobs::Scheduler&, jobs::JobReader&, const Gate&, jobs::UserLedger*,
            records::JobRecords*, records::JobRecords&, jobs::Collector&,
            models::Puller&, models::ModelBook&, doctor::Examiner&,
            access::TokenBook&, const access::TokenBook&, access::AuditStore&,
            Call&, const Call&, const access::Rights&, const access::Caller&,
            Request&, const Request&, Response&>
            given(with.scheduler, with.reader, with.gate, with.accounts.ledger,
                  options.records, *options.records, *options.collector,
                  *options.puller, *options.models, *options.examiner,
                  *options.tokens, *options.tokens, *options.audit_entries,
                  call, call, call.rights, call.rights.caller(), request,
                  request, response);
        return handle(std::get<Arguments>(given)...);
      },
      most_bytes);
}

void AddJobMethods(Hosts& on, const Backend& with, MethodTable& table) {
  Row<v1::SubmitRequest, v1::SubmitResponse>(
      with, table, "JobService.Submit", on.submits, Submit, kSubmissionBytes);
  Row<v1::GetSubmissionRequest, v1::SubmitRequest>(
      with, table, "JobService.GetSubmission", on.reads, GetSubmission);
  Row<v1::RetryRequest, v1::Job>(with, table, "JobService.Retry", on.deletions,
                                 RetryJob);
  Row<v1::CancelRequest, v1::Job>(with, table, "JobService.Cancel", on.changes,
                                  CancelJob);
  Row<v1::DeleteRequest, v1::DeleteResponse>(with, table, "JobService.Delete",
                                             on.deletions, DeleteJob);
  Row<v1::CheckpointsRequest, v1::CheckpointsResponse>(
      with, table, "JobService.Checkpoints", on.reads, ListCheckpoints);
  Row<v1::HoldRequest, v1::Job>(with, table, "JobService.Hold", on.changes,
                                HoldJob);
  Row<v1::ReleaseRequest, v1::Job>(with, table, "JobService.Release",
                                   on.changes, ReleaseJob);
  Row<v1::MoveRequest, v1::Job>(with, table, "JobService.Move", on.changes,
                                MoveJob);
  table.Unary<v1::PinRequest, v1::Job>(
      "JobService.Pin", on.changes,
      [&](Call& call, const auto& request, auto& response) {
        return PinJob(with.scheduler, with.reader, request.id(), true, call,
                      response);
      });
  table.Unary<v1::UnpinRequest, v1::Job>(
      "JobService.Unpin", on.changes,
      [&](Call& call, const auto& request, auto& response) {
        return PinJob(with.scheduler, with.reader, request.id(), false, call,
                      response);
      });
}

void AddJobReadingMethods(Hosts& on, const Backend& with, MethodTable& table) {
  Row<v1::GetJobRequest, v1::Job>(with, table, "JobService.Get", on.reads,
                                  GetJob);
  Row<v1::ListJobsRequest, v1::ListJobsResponse>(with, table, "JobService.List",
                                                 on.lists, ListJobs);
  Row<v1::FindJobsRequest, v1::FindJobsResponse>(
      with, table, "JobService.FindJobs", on.reads, FindJobs);
  Row<v1::QueueRequest, v1::QueueResponse>(with, table, "JobService.Queue",
                                           on.reads, ShowQueue);
  table.Sends<v1::WatchRequest, v1::JobEvent>(
      "JobService.Watch", on.streams,
      [&](const access::Rights&, const auto& request, Wake wake) {
        return MakeWatchSource(with.reader, request, std::move(wake));
      });
  table.Sends<v1::LogsRequest, v1::LogChunk>(
      "JobService.Logs", on.streams,
      [&](const access::Rights&, const auto& request, Wake wake) {
        return MakeLogSource(with.reader, request,
                             with.options.log_poll_interval, std::move(wake));
      });
  Row<v1::GetRecordRequest, v1::GetRecordResponse>(
      with, table, "JobService.GetRecord", on.reads, GetRecord);
  Row<v1::AddNoteRequest, v1::GetRecordResponse>(
      with, table, "JobService.AddNote", on.changes, AddNote);
  Row<v1::TagRequest, v1::GetRecordResponse>(with, table, "JobService.Tag",
                                             on.changes, TagJob);
}

void AddArtifactMethods(Hosts& on, const Backend& with, MethodTable& table) {
  const auto blobs_of = [&with](const access::Rights& rights) {
    return SeenBlobs(with.blobs, with.accounts.ledger, rights);
  };
  table.Unary<v1::FindBlobsRequest, v1::FindBlobsResponse>(
      "ArtifactService.FindBlobs", on.reads,
      [=](Call& call, const auto& request, auto& response) {
        SeenBlobs blobs = blobs_of(call.rights);
        return FindBlobs(blobs, call.rights.caller().user, request, response);
      },
      kFindBlobsBytes);
  table.Receives<v1::UploadRequest, v1::UploadResponse>(
      "ArtifactService.Upload", on.uploads, kUploadBytes,
      [=, &with](const access::Rights& rights, auto& response) {
        return MakeUploadSink(blobs_of(rights), rights.caller().user, response,
                              with.accounts.BeginUpload(rights));
      });
  table.Receives<v1::UploadBatchRequest, v1::UploadBatchResponse>(
      "ArtifactService.UploadBatch", on.uploads, kBatchBytes,
      [=, &with](const access::Rights& rights, auto& response) {
        return MakeBatchSink(blobs_of(rights), response,
                             with.accounts.BeginUpload(rights));
      });
  table.Sends<v1::DownloadRequest, v1::DownloadResponse>(
      "ArtifactService.Download", on.downloads,
      [&](const access::Rights& rights, const auto& request, Wake wake) {
        // A merge is work, as a plan is: not for a role that only reads.
        const bool may_merge = rights.caller().role >= access::Role::kUser;
        return MakeDownloadSource(with.reader, request,
                                  may_merge ? with.options.planner : nullptr,
                                  rights.caller().user, std::move(wake));
      });
}

void AddDaemonMethods(Hosts& on, const Backend& with, MethodTable& table) {
  table.Unary<v1::InfoRequest, v1::InfoResponse>(
      "DaemonService.Info", on.reads,
      [&](Call& call, const auto& request, auto& response) {
        absl::Status filled = DaemonInfo(with.reader, with.facts, response);
        const jobs::StateBytes bytes = with.options.collector->Bytes();
        response.set_state_bytes(bytes.used);
        response.set_state_budget_bytes(bytes.budget);
        if (!filled.ok() || !request.you()) return filled;
        return with.accounts.Describe(call.rights, with.reader,
                                      *response.mutable_you());
      });
  Row<v1::DrainRequest, v1::DrainResponse>(with, table, "DaemonService.Drain",
                                           on.changes, DrainQueue);
  table.Unary<v1::UndrainRequest, v1::UndrainResponse>(
      "DaemonService.Undrain", on.changes,
      [&](Call&, const auto&, auto&) { return with.scheduler.UndrainQueue(); });
  Row<v1::PlanCollectionRequest, v1::PlanCollectionResponse>(
      with, table, "DaemonService.PlanCollection", on.reads, PlanCollection);
  Row<v1::CollectRequest, v1::CollectResponse>(
      with, table, "DaemonService.Collect", on.collections, Collect);
}

void AddRunbookMethods(Hosts& on, const Backend& with, MethodTable& table) {
  table.Sends<v1::PlanRequest, v1::PlanEvent>(
      "RunbookService.Plan", on.streams,
      [&](const access::Rights& rights, auto& request, Wake wake) {
        return MakePlanSource(*with.options.planner, with.reader,
                              with.accounts.ledger, rights, std::move(request),
                              std::move(wake));
      },
      kSubmissionBytes);
  Row<v1::DiagnoseRequest, v1::Diagnosis>(
      with, table, "RunbookService.Diagnose", on.diagnoses, Diagnose);
  Row<v1::GetStudyResultRequest, v1::StudyResult>(
      with, table, "RunbookService.GetStudyResult", on.reads, GetStudyResult);
}

void AddModelMethods(Hosts& on, const Backend& with, MethodTable& table) {
  models::ModelBook& book = *with.options.models;
  table.Unary<v1::PushModelRequest, v1::PushModelResponse>(
      "ModelService.Push", on.models,
      [&](Call& call, const auto& request, auto& response) {
        SeenBlobs usable(with.blobs, with.accounts.ledger, call.rights);
        return PushModel(book, with.reader, usable, with.accounts, request,
                         call, response);
      },
      kPushBytes);
  table.Sends<v1::PullModelRequest, v1::PullModelProgress>(
      "ModelService.Pull", on.streams,
      [&](const access::Rights& rights, const auto& request, Wake wake) {
        return MakePullSource(book, with.reader, *with.options.puller, rights,
                              with.accounts.LimitsOf(rights), request,
                              std::move(wake));
      });
  Row<v1::CancelPullRequest, v1::CancelPullResponse>(
      with, table, "ModelService.CancelPull", on.changes, CancelPull);
  Row<v1::ListModelsRequest, v1::ListModelsResponse>(
      with, table, "ModelService.ListModels", on.model_lists, ListModels);
  Row<v1::RemoveModelRequest, v1::RemoveModelResponse>(
      with, table, "ModelService.RemoveModel", on.models, RemoveModel);
}

void AddAccessMethods(Hosts& on, const Backend& with, MethodTable& table) {
  table.Unary<v1::WhoAmIRequest, v1::WhoAmIResponse>(
      "AccessService.WhoAmI", on.reads,
      [&](Call& call, const auto&, auto& response) {
        return WhoAmI(*with.options.tokens, call.rights.caller(),
                      with.certificate_expiry(), response);
      });
  Row<v1::CreateTokenRequest, v1::CreateTokenResponse>(
      with, table, "AccessService.CreateToken", on.changes, CreateToken);
  Row<v1::ListTokensRequest, v1::ListTokensResponse>(
      with, table, "AccessService.ListTokens", on.reads, ListTokens);
  Row<v1::RevokeTokenRequest, v1::RevokeTokenResponse>(
      with, table, "AccessService.RevokeToken", on.changes, RevokeToken);
  Row<v1::ListAuditRequest, v1::ListAuditResponse>(
      with, table, "AccessService.ListAudit", on.reads, ListAudit);
}

}  // namespace

Hosts::Hosts(const Options& options)
    : barrier(options.log),
      reads(options.read_threads, options.max_waiting_reads, barrier),
      lists(kListThreads, options.max_waiting_reads, barrier),
      model_lists(kModelThreads, options.max_waiting_reads, barrier),
      changes(options.change_threads, options.max_waiting_reads, barrier),
      submits(options.submit_threads, options.max_waiting_submits, barrier),
      deletions(kDeletionThreads, options.max_waiting_submits, barrier),
      models(kModelThreads, options.max_waiting_submits, barrier),
      collections(kDeletionThreads, options.max_waiting_submits, barrier),
      diagnoses(kDiagnosisThreads, options.max_waiting_submits, barrier),
      streams(kStreamThreads, {.of_a_user = options.max_streams_of_user},
              barrier),
      downloads(kDownloadThreads,
                {options.max_uploads, options.max_uploads_of_user,
                 options.download_idle},
                barrier),
      uploads(kUploadThreads,
              {options.max_uploads, options.max_uploads_of_user,
               options.upload_idle},
              barrier) {}

void AddMethods(Hosts& on, const Backend& with, MethodTable& table) {
  AddJobMethods(on, with, table);
  AddJobReadingMethods(on, with, table);
  AddArtifactMethods(on, with, table);
  AddDaemonMethods(on, with, table);
  AddRunbookMethods(on, with, table);
  AddModelMethods(on, with, table);
  AddAccessMethods(on, with, table);
}

}  // namespace mpsd::rpc
