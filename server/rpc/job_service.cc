// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/job_service.h"

#include <utility>

#include "server/rpc/job_calls.h"
#include "server/rpc/list_jobs.h"
#include "server/rpc/log_stream.h"
#include "server/rpc/source_stream.h"
#include "server/rpc/status.h"
#include "server/rpc/watch_stream.h"

namespace mpsd::rpc {

grpc::ServerUnaryReactor* JobService::Submit(
    grpc::CallbackServerContext* context, const v1::SubmitRequest* request,
    v1::SubmitResponse* response) {
  return Answer(context, rpc::Submit(manager_, *request, *response));
}

grpc::ServerUnaryReactor* JobService::Get(grpc::CallbackServerContext* context,
                                          const v1::GetJobRequest* request,
                                          v1::Job* response) {
  return Answer(context, GetJob(manager_, *request, *response));
}

grpc::ServerUnaryReactor* JobService::List(grpc::CallbackServerContext* context,
                                           const v1::ListJobsRequest* request,
                                           v1::ListJobsResponse* response) {
  return Answer(context, ListJobs(manager_, *request, *response));
}

grpc::ServerWriteReactor<v1::JobEvent>* JobService::Watch(
    grpc::CallbackServerContext*, const v1::WatchRequest* request) {
  return SourceStream<v1::JobEvent>::Start(streams_, [&](Wake wake) {
    return MakeWatchSource(manager_, *request, std::move(wake));
  });
}

grpc::ServerUnaryReactor* JobService::Cancel(
    grpc::CallbackServerContext* context, const v1::CancelRequest* request,
    v1::Job* response) {
  return Answer(context, CancelJob(manager_, *request, *response));
}

grpc::ServerWriteReactor<v1::LogChunk>* JobService::Logs(
    grpc::CallbackServerContext*, const v1::LogsRequest* request) {
  return SourceStream<v1::LogChunk>::Start(streams_, [&](Wake wake) {
    return MakeLogSource(manager_, *request, log_poll_interval_,
                         std::move(wake));
  });
}

grpc::ServerUnaryReactor* JobService::Checkpoints(
    grpc::CallbackServerContext* context, const v1::CheckpointsRequest* request,
    v1::CheckpointsResponse* response) {
  return Answer(context, ListCheckpoints(manager_, *request, *response));
}

}  // namespace mpsd::rpc
