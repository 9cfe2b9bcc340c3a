// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_JOB_SERVICE_H_
#define MPSD_SERVER_RPC_JOB_SERVICE_H_

#include "absl/time/time.h"
#include "mpsd/v1/jobs.grpc.pb.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/stream_host.h"

namespace mpsd::rpc {

// mpsd.v1.JobService over the queue. The borrowed objects must outlive it.
class JobService final : public v1::JobService::CallbackService {
 public:
  JobService(jobs::JobManager& manager, StreamHost& streams,
             absl::Duration log_poll_interval)
      : manager_(manager),
        streams_(streams),
        log_poll_interval_(log_poll_interval) {}

  grpc::ServerUnaryReactor* Submit(grpc::CallbackServerContext* context,
                                   const v1::SubmitRequest* request,
                                   v1::SubmitResponse* response) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context,
                                const v1::GetJobRequest* request,
                                v1::Job* response) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const v1::ListJobsRequest* request,
                                 v1::ListJobsResponse* response) override;
  grpc::ServerWriteReactor<v1::JobEvent>* Watch(
      grpc::CallbackServerContext* context,
      const v1::WatchRequest* request) override;
  grpc::ServerUnaryReactor* Cancel(grpc::CallbackServerContext* context,
                                   const v1::CancelRequest* request,
                                   v1::Job* response) override;
  grpc::ServerWriteReactor<v1::LogChunk>* Logs(
      grpc::CallbackServerContext* context,
      const v1::LogsRequest* request) override;
  grpc::ServerUnaryReactor* Checkpoints(
      grpc::CallbackServerContext* context,
      const v1::CheckpointsRequest* request,
      v1::CheckpointsResponse* response) override;

 private:
  jobs::JobManager& manager_;
  StreamHost& streams_;
  const absl::Duration log_poll_interval_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_JOB_SERVICE_H_
