// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/job_service.h"

#include <utility>

#include "server/rpc/audit_detail.h"
#include "server/rpc/delete_job.h"
#include "server/rpc/delete_jobs.h"
#include "server/rpc/find_jobs.h"
#include "server/rpc/get_submission.h"
#include "server/rpc/job_calls.h"
#include "server/rpc/list_jobs.h"
#include "server/rpc/log_stream.h"
#include "server/rpc/queue_calls.h"
#include "server/rpc/record_calls.h"
#include "server/rpc/show_queue.h"
#include "server/rpc/source_stream.h"
#include "server/rpc/watch_stream.h"

namespace mpsd::rpc {
namespace {

absl::Status NoRecords() {
  return absl::UnimplementedError("this mpsd keeps no records of jobs");
}

}  // namespace

// gRPC keeps request and response until the call is finished, so the tasks of
// all handlers capture pointers.
grpc::ServerUnaryReactor* JobService::Submit(
    grpc::CallbackServerContext* context, const v1::SubmitRequest* request,
    v1::SubmitResponse* response) {
  return Answer(context, gate_, submits_,
                {"JobService.Submit", "", AuditDetail(*request)},
                [=, this](Call& call) {
                  call.limits = accounts_.LimitsOf(call.rights);
                  return rpc::Submit(manager_, reader_, accounts_.ledger,
                                     *request, call, *response);
                });
}

grpc::ServerUnaryReactor* JobService::Get(grpc::CallbackServerContext* context,
                                          const v1::GetJobRequest* request,
                                          v1::Job* response) {
  return Answer(context, gate_, reads_, {"JobService.Get", request->id()},
                [=, this](Call& call) {
                  return GetJob(reader_, call.rights, *request, *response);
                });
}

grpc::ServerUnaryReactor* JobService::GetRecord(
    grpc::CallbackServerContext* context, const v1::GetRecordRequest* request,
    v1::GetRecordResponse* response) {
  return Answer(context, gate_, reads_, {"JobService.GetRecord", request->id()},
                [=, this](Call& call) {
                  if (records_ == nullptr) return NoRecords();
                  return rpc::GetRecord(*records_, reader_, call.rights,
                                        *request, *response);
                });
}

grpc::ServerUnaryReactor* JobService::AddNote(
    grpc::CallbackServerContext* context, const v1::AddNoteRequest* request,
    v1::GetRecordResponse* response) {
  return Answer(context, gate_, changes_,
                {"JobService.AddNote", request->id(), AuditDetail(*request)},
                [=, this](Call& call) {
                  if (records_ == nullptr) return NoRecords();
                  return rpc::AddNote(*records_, reader_, call.rights, *request,
                                      *response);
                });
}

grpc::ServerUnaryReactor* JobService::Tag(grpc::CallbackServerContext* context,
                                          const v1::TagRequest* request,
                                          v1::GetRecordResponse* response) {
  return Answer(context, gate_, changes_,
                {"JobService.Tag", request->id(), AuditDetail(*request)},
                [=, this](Call& call) {
                  if (records_ == nullptr) return NoRecords();
                  return TagJob(*records_, reader_, call.rights, *request,
                                *response);
                });
}

grpc::ServerUnaryReactor* JobService::List(grpc::CallbackServerContext* context,
                                           const v1::ListJobsRequest* request,
                                           v1::ListJobsResponse* response) {
  return Answer(
      context, gate_, lists_, {"JobService.List"}, [=, this](Call& call) {
        return ListJobs(reader_, records_, call.rights, *request, *response);
      });
}

grpc::ServerUnaryReactor* JobService::FindJobs(
    grpc::CallbackServerContext* context, const v1::FindJobsRequest* request,
    v1::FindJobsResponse* response) {
  return Answer(context, gate_, reads_, {"JobService.FindJobs"},
                [=, this](Call& call) {
                  return rpc::FindJobs(reader_, records_, call.rights, *request,
                                       *response);
                });
}

grpc::ServerWriteReactor<v1::JobEvent>* JobService::Watch(
    grpc::CallbackServerContext* context, const v1::WatchRequest* request) {
  return SourceStream<v1::JobEvent>::Start(
      *context, gate_, streams_, {"JobService.Watch", request->id()},
      [&](const access::Rights&, Wake wake) {
        return MakeWatchSource(reader_, *request, std::move(wake));
      });
}

grpc::ServerUnaryReactor* JobService::Cancel(
    grpc::CallbackServerContext* context, const v1::CancelRequest* request,
    v1::Job* response) {
  return Answer(context, gate_, changes_,
                {"JobService.Cancel", request->id(), AuditDetail(*request)},
                [=, this](Call& call) {
                  return CancelJob(manager_, reader_, *request, call,
                                   *response);
                });
}

grpc::ServerUnaryReactor* JobService::Delete(
    grpc::CallbackServerContext* context, const v1::DeleteRequest* request,
    v1::DeleteResponse* response) {
  return Answer(
      context, gate_, deletions_, {"JobService.Delete", request->id()},
      [=, this](Call&) { return DeleteJob(manager_, *request, *response); });
}

grpc::ServerUnaryReactor* JobService::DeleteJobs(
    grpc::CallbackServerContext* context, const v1::DeleteJobsRequest* request,
    v1::DeleteJobsResponse* response) {
  return Answer(context, gate_, deletions_,
                {"JobService.DeleteJobs", "", AuditDetail(*request)},
                [=, this](Call& call) {
                  return rpc::DeleteJobs(gate_, manager_, reader_, *request,
                                         call, *response);
                });
}

grpc::ServerUnaryReactor* JobService::Pin(grpc::CallbackServerContext* context,
                                          const v1::PinRequest* request,
                                          v1::Job* response) {
  return Answer(context, gate_, changes_, {"JobService.Pin", request->id()},
                [=, this](Call& call) {
                  return PinJob(manager_, reader_, request->id(), true, call,
                                *response);
                });
}

grpc::ServerUnaryReactor* JobService::Unpin(
    grpc::CallbackServerContext* context, const v1::UnpinRequest* request,
    v1::Job* response) {
  return Answer(context, gate_, changes_, {"JobService.Unpin", request->id()},
                [=, this](Call& call) {
                  return PinJob(manager_, reader_, request->id(), false, call,
                                *response);
                });
}

grpc::ServerWriteReactor<v1::LogChunk>* JobService::Logs(
    grpc::CallbackServerContext* context, const v1::LogsRequest* request) {
  return SourceStream<v1::LogChunk>::Start(
      *context, gate_, streams_, {"JobService.Logs", request->id()},
      [&](const access::Rights&, Wake wake) {
        return MakeLogSource(reader_, *request, log_poll_interval_,
                             std::move(wake));
      });
}

grpc::ServerUnaryReactor* JobService::Checkpoints(
    grpc::CallbackServerContext* context, const v1::CheckpointsRequest* request,
    v1::CheckpointsResponse* response) {
  return Answer(context, gate_, reads_,
                {"JobService.Checkpoints", request->id()}, [=, this](Call&) {
                  return ListCheckpoints(reader_, *request, *response);
                });
}

grpc::ServerUnaryReactor* JobService::GetSubmission(
    grpc::CallbackServerContext* context,
    const v1::GetSubmissionRequest* request, v1::SubmitRequest* response) {
  return Answer(context, gate_, reads_,
                {"JobService.GetSubmission", request->id()}, [=, this](Call&) {
                  return rpc::GetSubmission(reader_, *request, *response);
                });
}

grpc::ServerUnaryReactor* JobService::Queue(
    grpc::CallbackServerContext* context, const v1::QueueRequest* request,
    v1::QueueResponse* response) {
  return Answer(context, gate_, reads_, {"JobService.Queue"},
                [=, this](Call& call) {
                  return ShowQueue(reader_, call.rights, *request, *response);
                });
}

grpc::ServerUnaryReactor* JobService::Hold(grpc::CallbackServerContext* context,
                                           const v1::HoldRequest* request,
                                           v1::Job* response) {
  return Answer(context, gate_, changes_, {"JobService.Hold", request->id()},
                [=, this](Call& call) {
                  return HoldJob(manager_, reader_, *request, call, *response);
                });
}

grpc::ServerUnaryReactor* JobService::Release(
    grpc::CallbackServerContext* context, const v1::ReleaseRequest* request,
    v1::Job* response) {
  return Answer(context, gate_, changes_, {"JobService.Release", request->id()},
                [=, this](Call& call) {
                  return ReleaseJob(manager_, reader_, *request, call,
                                    *response);
                });
}

grpc::ServerUnaryReactor* JobService::Move(grpc::CallbackServerContext* context,
                                           const v1::MoveRequest* request,
                                           v1::Job* response) {
  return Answer(context, gate_, changes_,
                {"JobService.Move", request->id(), AuditDetail(*request)},
                [=, this](Call& call) {
                  call.limits = accounts_.LimitsOf(call.rights);
                  return MoveJob(manager_, reader_, *request, call, *response);
                });
}

grpc::ServerUnaryReactor* JobService::Retry(
    grpc::CallbackServerContext* context, const v1::RetryRequest* request,
    v1::Job* response) {
  return Answer(context, gate_, deletions_,
                {"JobService.Retry", request->id(), AuditDetail(*request)},
                [=, this](Call& call) {
                  call.limits = accounts_.LimitsOf(call.rights);
                  return RetryJob(manager_, reader_, *request, call, *response);
                });
}

}  // namespace mpsd::rpc
