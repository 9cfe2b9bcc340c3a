// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/methods.h"

#include <memory>
#include <string>
#include <utility>

#include "core/base/clock.h"
#include "server/rpc/access_calls.h"
#include "server/rpc/collect_calls.h"
#include "server/rpc/daemon_info.h"
#include "server/rpc/delete_job.h"
#include "server/rpc/delete_jobs.h"
#include "server/rpc/diagnose_call.h"
#include "server/rpc/download_reactor.h"
#include "server/rpc/find_blobs.h"
#include "server/rpc/find_jobs.h"
#include "server/rpc/get_submission.h"
#include "server/rpc/job_calls.h"
#include "server/rpc/list_audit.h"
#include "server/rpc/list_jobs.h"
#include "server/rpc/log_stream.h"
#include "server/rpc/model_calls.h"
#include "server/rpc/plan_stream.h"
#include "server/rpc/pull_stream.h"
#include "server/rpc/queue_calls.h"
#include "server/rpc/record_calls.h"
#include "server/rpc/seen_blobs.h"
#include "server/rpc/show_queue.h"
#include "server/rpc/study_calls.h"
#include "server/rpc/upload_reactor.h"
#include "server/rpc/watch_stream.h"

namespace mpsd::rpc {
namespace {

constexpr int kStreamThreads = 2;
// One thread removes the folders of deleted jobs, one after the other, however
// long a large folder takes.
constexpr int kDeletionThreads = 1;
// One, for lists have one connection to the database: no one who asks for one
// job waits until fifty people have looked at all of them.
constexpr int kListThreads = 1;
// One, so that of fifty who ask for the doctor one starts a worker, and the
// others get what that one found.
constexpr int kDiagnosisThreads = 1;
constexpr int kDownloadThreads = 2;
// Most of the upload threads wait for the drive.
constexpr int kUploadThreads = 4;
// FindBlobs has up to limits::kBlobNames digests of 64 digits.
constexpr size_t kFindBlobsBytes = 128 << 10;

absl::Status NoRecords() {
  return absl::UnimplementedError("this mpsd keeps no records of jobs");
}

void AddSubmissionMethods(Hosts& on, const Backend& with, MethodTable& table) {
  table.Unary<v1::SubmitRequest, v1::SubmitResponse>(
      "JobService.Submit", on.submits,
      [&](Call& call, const auto& request, auto& response) {
        call.limits = with.accounts.LimitsOf(call.rights);
        return Submit(with.manager, with.reader, with.accounts.ledger, request,
                      call, response);
      },
      kAnyBytes);
  table.Unary<v1::GetSubmissionRequest, v1::SubmitRequest>(
      "JobService.GetSubmission", on.reads,
      [&](Call&, const auto& request, auto& response) {
        return GetSubmission(with.reader, request, response);
      });
  table.Unary<v1::RetryRequest, v1::Job>(
      "JobService.Retry", on.deletions,
      [&](Call& call, const auto& request, auto& response) {
        call.limits = with.accounts.LimitsOf(call.rights);
        return RetryJob(with.manager, with.reader, request, call, response);
      });
  table.Unary<v1::CancelRequest, v1::Job>(
      "JobService.Cancel", on.changes,
      [&](Call& call, const auto& request, auto& response) {
        return CancelJob(with.manager, with.reader, request, call, response);
      });
  table.Unary<v1::DeleteRequest, v1::DeleteResponse>(
      "JobService.Delete", on.deletions,
      [&](Call&, const auto& request, auto& response) {
        return DeleteJob(with.manager, request, response);
      });
  table.Unary<v1::DeleteJobsRequest, v1::DeleteJobsResponse>(
      "JobService.DeleteJobs", on.deletions,
      [&](Call& call, const auto& request, auto& response) {
        return DeleteJobs(with.gate, with.manager, with.reader, request, call,
                          response);
      });
  table.Unary<v1::CheckpointsRequest, v1::CheckpointsResponse>(
      "JobService.Checkpoints", on.reads,
      [&](Call&, const auto& request, auto& response) {
        return ListCheckpoints(with.reader, request, response);
      });
}

void AddJobReadingMethods(Hosts& on, const Backend& with, MethodTable& table) {
  records::JobRecords* const records = with.options.records;
  table.Unary<v1::GetJobRequest, v1::Job>(
      "JobService.Get", on.reads,
      [&](Call& call, const auto& request, auto& response) {
        return GetJob(with.reader, call.rights, request, response);
      });
  table.Unary<v1::ListJobsRequest, v1::ListJobsResponse>(
      "JobService.List", on.lists,
      [&, records](Call& call, const auto& request, auto& response) {
        return ListJobs(with.reader, records, call.rights, request, response);
      });
  table.Unary<v1::FindJobsRequest, v1::FindJobsResponse>(
      "JobService.FindJobs", on.reads,
      [&, records](Call& call, const auto& request, auto& response) {
        return FindJobs(with.reader, records, call.rights, request, response);
      });
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
  table.Unary<v1::GetRecordRequest, v1::GetRecordResponse>(
      "JobService.GetRecord", on.reads,
      [&, records](Call& call, const auto& request, auto& response) {
        if (records == nullptr) return NoRecords();
        return GetRecord(*records, with.reader, call.rights, request, response);
      });
  table.Unary<v1::AddNoteRequest, v1::GetRecordResponse>(
      "JobService.AddNote", on.changes,
      [&, records](Call& call, const auto& request, auto& response) {
        if (records == nullptr) return NoRecords();
        return AddNote(*records, with.reader, call.rights, request, response);
      });
  table.Unary<v1::TagRequest, v1::GetRecordResponse>(
      "JobService.Tag", on.changes,
      [&, records](Call& call, const auto& request, auto& response) {
        if (records == nullptr) return NoRecords();
        return TagJob(*records, with.reader, call.rights, request, response);
      });
}

void AddQueueMethods(Hosts& on, const Backend& with, MethodTable& table) {
  table.Unary<v1::QueueRequest, v1::QueueResponse>(
      "JobService.Queue", on.reads,
      [&](Call& call, const auto& request, auto& response) {
        return ShowQueue(with.reader, call.rights, request, response);
      });
  table.Unary<v1::HoldRequest, v1::Job>(
      "JobService.Hold", on.changes,
      [&](Call& call, const auto& request, auto& response) {
        return HoldJob(with.manager, with.reader, request, call, response);
      });
  table.Unary<v1::ReleaseRequest, v1::Job>(
      "JobService.Release", on.changes,
      [&](Call& call, const auto& request, auto& response) {
        return ReleaseJob(with.manager, with.reader, request, call, response);
      });
  table.Unary<v1::MoveRequest, v1::Job>(
      "JobService.Move", on.changes,
      [&](Call& call, const auto& request, auto& response) {
        call.limits = with.accounts.LimitsOf(call.rights);
        return MoveJob(with.manager, with.reader, request, call, response);
      });
  table.Unary<v1::PinRequest, v1::Job>(
      "JobService.Pin", on.changes,
      [&](Call& call, const auto& request, auto& response) {
        return PinJob(with.manager, with.reader, request.id(), true, call,
                      response);
      });
  table.Unary<v1::UnpinRequest, v1::Job>(
      "JobService.Unpin", on.changes,
      [&](Call& call, const auto& request, auto& response) {
        return PinJob(with.manager, with.reader, request.id(), false, call,
                      response);
      });
}

void AddArtifactMethods(Hosts& on, const Backend& with, MethodTable& table) {
  const auto blobs_of = [&with](const access::Rights& rights) {
    return std::make_unique<SeenBlobs>(with.blobs, with.accounts.ledger,
                                       rights);
  };
  table.Unary<v1::FindBlobsRequest, v1::FindBlobsResponse>(
      "ArtifactService.FindBlobs", on.reads,
      [=](Call& call, const auto& request, auto& response) {
        return FindBlobs(*blobs_of(call.rights), call.rights.caller().user,
                         request, response);
      },
      kFindBlobsBytes);
  table.Receives<v1::UploadRequest, v1::UploadResponse>(
      "ArtifactService.Upload", on.uploads,
      [=, &with](const access::Rights& rights, auto& response) {
        return MakeUploadSink(blobs_of(rights), rights.caller().user, response,
                              with.accounts.BeginUpload(rights));
      });
  table.Receives<v1::UploadBatchRequest, v1::UploadBatchResponse>(
      "ArtifactService.UploadBatch", on.uploads,
      [=, &with](const access::Rights& rights, auto& response) {
        return MakeBatchSink(blobs_of(rights), response,
                             with.accounts.BeginUpload(rights));
      });
  table.Sends<v1::DownloadRequest, v1::DownloadResponse>(
      "ArtifactService.Download", on.downloads,
      [&](const access::Rights&, const auto& request, const Wake&) {
        return MakeDownloadSource(with.reader, request);
      });
}

void AddDaemonMethods(Hosts& on, const Backend& with, MethodTable& table) {
  jobs::Collector* const collector = with.options.collector;
  table.Unary<v1::InfoRequest, v1::InfoResponse>(
      "DaemonService.Info", on.reads,
      [&, collector](Call& call, const auto& request, auto& response) {
        absl::Status filled = DaemonInfo(with.reader, with.facts, response);
        if (collector != nullptr) {
          const jobs::StateBytes bytes = collector->Bytes();
          response.set_state_bytes(bytes.used);
          response.set_state_budget_bytes(bytes.budget);
        }
        if (!filled.ok() || !request.you()) return filled;
        return with.accounts.Describe(call.rights, with.reader,
                                      *response.mutable_you());
      });
  table.Unary<v1::DrainRequest, v1::DrainResponse>(
      "DaemonService.Drain", on.changes,
      [&](Call& call, const auto& request, auto&) {
        return DrainQueue(with.manager, request, call);
      });
  table.Unary<v1::UndrainRequest, v1::UndrainResponse>(
      "DaemonService.Undrain", on.changes,
      [&](Call&, const auto&, auto&) { return with.manager.UndrainQueue(); });
  table.Unary<v1::PlanCollectionRequest, v1::PlanCollectionResponse>(
      "DaemonService.PlanCollection", on.reads,
      [=](Call& call, const auto&, auto& response) {
        return PlanCollection(collector, call.rights, response);
      });
  table.Unary<v1::CollectRequest, v1::CollectResponse>(
      "DaemonService.Collect", on.collections,
      [=](Call& call, const auto&, auto& response) {
        return Collect(collector, call, response);
      });
}

void AddRunbookMethods(Hosts& on, const Backend& with, MethodTable& table) {
  table.Sends<v1::PlanRequest, v1::PlanEvent>(
      "RunbookService.Plan", on.streams,
      [&](const access::Rights& rights, const auto& request, Wake wake) {
        return MakePlanSource(with.options.planner, with.reader,
                              with.accounts.ledger, rights, request,
                              std::move(wake));
      },
      kAnyBytes);
  table.Unary<v1::DiagnoseRequest, v1::Diagnosis>(
      "RunbookService.Diagnose", on.diagnoses,
      [&](Call& call, const auto& request, auto& response) {
        return Diagnose(with.options.examiner, call, request, response);
      });
  table.Unary<v1::GetStudyResultRequest, v1::StudyResult>(
      "RunbookService.GetStudyResult", on.reads,
      [&](Call&, const auto& request, auto& response) {
        return GetStudyResult(with.reader, request, response);
      });
}

void AddModelMethods(Hosts& on, const Backend& with, models::ModelBook& book,
                     MethodTable& table) {
  models::Puller* const puller = with.options.puller;
  table.Unary<v1::PushModelRequest, v1::PushModelResponse>(
      "ModelService.Push", on.submits,
      [&](Call& call, const auto& request, auto& response) {
        SeenBlobs usable(with.blobs, with.accounts.ledger, call.rights);
        return PushModel(book, with.reader, usable, with.accounts, request,
                         call, response);
      },
      kAnyBytes);
  table.Sends<v1::PullModelRequest, v1::PullModelProgress>(
      "ModelService.Pull", on.streams,
      [&, puller](const access::Rights& rights, const auto& request,
                  Wake wake) {
        const auto describe = [&, rights](const std::string& id,
                                          v1::Model& model) {
          FillModel(book, with.reader, rights, id, model);
        };
        return MakePullSource(puller, rights, with.accounts.LimitsOf(rights),
                              request, describe, std::move(wake));
      });
  table.Unary<v1::CancelPullRequest, v1::CancelPullResponse>(
      "ModelService.CancelPull", on.changes,
      [=](Call& call, const auto& request, auto&) {
        return CancelPull(puller, call.rights, request);
      });
  table.Unary<v1::ListModelsRequest, v1::ListModelsResponse>(
      "ModelService.ListModels", on.reads,
      [&](Call& call, const auto& request, auto& response) {
        return ListModels(book, with.reader, call.rights, request, response);
      });
  table.Unary<v1::RemoveModelRequest, v1::RemoveModelResponse>(
      "ModelService.RemoveModel", on.deletions,
      [&](Call& call, const auto& request, auto& response) {
        return RemoveModel(book, call.rights, request, response);
      });
}

void AddAccessMethods(Hosts& on, const Backend& with, access::TokenBook& tokens,
                      access::AuditStore& audit, MethodTable& table) {
  table.Unary<v1::WhoAmIRequest, v1::WhoAmIResponse>(
      "AccessService.WhoAmI", on.reads,
      [&](Call& call, const auto&, auto& response) {
        return WhoAmI(tokens, call.rights.caller(), with.certificate_expiry(),
                      response);
      });
  table.Unary<v1::CreateTokenRequest, v1::CreateTokenResponse>(
      "AccessService.CreateToken", on.changes,
      [&](Call& call, const auto& request, auto& response) {
        return CreateToken(tokens, call.rights.caller(), request,
                           base::Clock::Real().Now(), response);
      });
  table.Unary<v1::ListTokensRequest, v1::ListTokensResponse>(
      "AccessService.ListTokens", on.reads,
      [&](Call& call, const auto&, auto& response) {
        return ListTokens(tokens, call.rights.caller(), response);
      });
  table.Unary<v1::RevokeTokenRequest, v1::RevokeTokenResponse>(
      "AccessService.RevokeToken", on.changes,
      [&](Call& call, const auto& request, auto& response) {
        return RevokeToken(tokens, call.rights.caller(), request, response);
      });
  table.Unary<v1::ListAuditRequest, v1::ListAuditResponse>(
      "AccessService.ListAudit", on.reads,
      [&](Call& call, const auto& request, auto& response) {
        return ListAudit(audit, call.rights.caller(), request, response);
      });
}

}  // namespace

Hosts::Hosts(const Options& options)
    : reads(options.read_threads, options.max_waiting_reads,
            Barrier(options.log)),
      lists(kListThreads, options.max_waiting_reads, Barrier(options.log)),
      changes(options.change_threads, options.max_waiting_reads,
              Barrier(options.log)),
      submits(options.submit_threads, options.max_waiting_submits,
              Barrier(options.log)),
      deletions(kDeletionThreads, options.max_waiting_submits,
                Barrier(options.log)),
      collections(kDeletionThreads, options.max_waiting_submits,
                  Barrier(options.log)),
      diagnoses(kDiagnosisThreads, options.max_waiting_submits,
                Barrier(options.log)),
      streams(kStreamThreads, {.of_a_user = options.max_streams_of_user},
              Barrier(options.log)),
      downloads(kDownloadThreads,
                {options.max_uploads, options.max_uploads_of_user,
                 options.download_idle},
                Barrier(options.log)),
      uploads(kUploadThreads,
              {options.max_uploads, options.max_uploads_of_user,
               options.upload_idle},
              Barrier(options.log)) {}

void AddMethods(Hosts& on, const Backend& with, MethodTable& table) {
  AddSubmissionMethods(on, with, table);
  AddJobReadingMethods(on, with, table);
  AddQueueMethods(on, with, table);
  AddArtifactMethods(on, with, table);
  AddDaemonMethods(on, with, table);
  AddRunbookMethods(on, with, table);
  const Options& options = with.options;
  if (options.models != nullptr) {
    AddModelMethods(on, with, *options.models, table);
  }
  if (options.tokens != nullptr && options.audit_entries != nullptr) {
    AddAccessMethods(on, with, *options.tokens, *options.audit_entries, table);
  }
}

}  // namespace mpsd::rpc
