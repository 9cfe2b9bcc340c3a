// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/job_service.h"

#include <utility>

#include "server/rpc/delete_job.h"
#include "server/rpc/find_jobs.h"
#include "server/rpc/job_calls.h"
#include "server/rpc/list_jobs.h"
#include "server/rpc/log_stream.h"
#include "server/rpc/source_stream.h"
#include "server/rpc/watch_stream.h"

namespace mpsd::rpc {

// gRPC keeps request and response until the call is finished, so the tasks of
// all handlers capture pointers.
grpc::ServerUnaryReactor* JobService::Submit(
    grpc::CallbackServerContext* context, const v1::SubmitRequest* request,
    v1::SubmitResponse* response) {
  return Answer(context, submits_, "JobService.Submit",
                [=, this](const jobs::Wanted& wanted) {
                  return rpc::Submit(manager_, reader_, *request, wanted,
                                     *response);
                });
}

grpc::ServerUnaryReactor* JobService::Get(grpc::CallbackServerContext* context,
                                          const v1::GetJobRequest* request,
                                          v1::Job* response) {
  return Answer(context, reads_, "JobService.Get",
                [=, this] { return GetJob(reader_, *request, *response); });
}

grpc::ServerUnaryReactor* JobService::List(grpc::CallbackServerContext* context,
                                           const v1::ListJobsRequest* request,
                                           v1::ListJobsResponse* response) {
  return Answer(context, reads_, "JobService.List",
                [=, this] { return ListJobs(reader_, *request, *response); });
}

grpc::ServerUnaryReactor* JobService::FindJobs(
    grpc::CallbackServerContext* context, const v1::FindJobsRequest* request,
    v1::FindJobsResponse* response) {
  return Answer(context, reads_, "JobService.FindJobs", [=, this] {
    return rpc::FindJobs(reader_, *request, *response);
  });
}

grpc::ServerWriteReactor<v1::JobEvent>* JobService::Watch(
    grpc::CallbackServerContext* context, const v1::WatchRequest* request) {
  return SourceStream<v1::JobEvent>::Start(
      *context, streams_, "JobService.Watch", [&](Wake wake) {
        return MakeWatchSource(reader_, *request, std::move(wake));
      });
}

grpc::ServerUnaryReactor* JobService::Cancel(
    grpc::CallbackServerContext* context, const v1::CancelRequest* request,
    v1::Job* response) {
  return Answer(context, changes_, "JobService.Cancel", [=, this] {
    return CancelJob(manager_, reader_, *request, *response);
  });
}

grpc::ServerUnaryReactor* JobService::Delete(
    grpc::CallbackServerContext* context, const v1::DeleteRequest* request,
    v1::DeleteResponse* response) {
  return Answer(context, deletions_, "JobService.Delete",
                [=, this] { return DeleteJob(manager_, *request, *response); });
}

grpc::ServerUnaryReactor* JobService::Retry(
    grpc::CallbackServerContext* context, const v1::RetryRequest* request,
    v1::Job* response) {
  return Answer(context, changes_, "JobService.Retry", [=, this] {
    return RetryJob(manager_, reader_, *request, *response);
  });
}

grpc::ServerWriteReactor<v1::LogChunk>* JobService::Logs(
    grpc::CallbackServerContext* context, const v1::LogsRequest* request) {
  return SourceStream<v1::LogChunk>::Start(
      *context, streams_, "JobService.Logs", [&](Wake wake) {
        return MakeLogSource(reader_, *request, log_poll_interval_,
                             std::move(wake));
      });
}

grpc::ServerUnaryReactor* JobService::Checkpoints(
    grpc::CallbackServerContext* context, const v1::CheckpointsRequest* request,
    v1::CheckpointsResponse* response) {
  return Answer(context, reads_, "JobService.Checkpoints", [=, this] {
    return ListCheckpoints(reader_, *request, *response);
  });
}

}  // namespace mpsd::rpc
