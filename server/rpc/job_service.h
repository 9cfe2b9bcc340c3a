// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_JOB_SERVICE_H_
#define MPSD_SERVER_RPC_JOB_SERVICE_H_

#include "absl/time/time.h"
#include "mpsd/v1/jobs.grpc.pb.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/job_reader.h"
#include "server/rpc/stream_host.h"
#include "server/rpc/unary_call.h"

namespace mpsd::rpc {

// mpsd.v1.JobService over the queue. The borrowed objects must outlive the
// service.
class JobService final : public v1::JobService::CallbackService {
 public:
  // The threads on which unary calls run.
  struct Hosts {
    CallHost& reads;      // calls that have no host below
    CallHost& changes;    // Cancel and Retry, which wait for the store
    CallHost& submits;    // Submit, which works on the disk
    CallHost& deletions;  // Delete, which works on the disk
  };
  JobService(jobs::JobManager& manager, jobs::JobReader& reader, Hosts hosts,
             StreamHost& streams, absl::Duration log_poll_interval)
      : manager_(manager),
        reader_(reader),
        reads_(hosts.reads),
        changes_(hosts.changes),
        submits_(hosts.submits),
        deletions_(hosts.deletions),
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
  grpc::ServerUnaryReactor* FindJobs(grpc::CallbackServerContext* context,
                                     const v1::FindJobsRequest* request,
                                     v1::FindJobsResponse* response) override;
  grpc::ServerWriteReactor<v1::JobEvent>* Watch(
      grpc::CallbackServerContext* context,
      const v1::WatchRequest* request) override;
  grpc::ServerUnaryReactor* Cancel(grpc::CallbackServerContext* context,
                                   const v1::CancelRequest* request,
                                   v1::Job* response) override;
  grpc::ServerUnaryReactor* Retry(grpc::CallbackServerContext* context,
                                  const v1::RetryRequest* request,
                                  v1::Job* response) override;
  grpc::ServerUnaryReactor* Delete(grpc::CallbackServerContext* context,
                                   const v1::DeleteRequest* request,
                                   v1::DeleteResponse* response) override;
  grpc::ServerWriteReactor<v1::LogChunk>* Logs(
      grpc::CallbackServerContext* context,
      const v1::LogsRequest* request) override;
  grpc::ServerUnaryReactor* Checkpoints(
      grpc::CallbackServerContext* context,
      const v1::CheckpointsRequest* request,
      v1::CheckpointsResponse* response) override;

 private:
  jobs::JobManager& manager_;
  jobs::JobReader& reader_;
  CallHost& reads_;
  CallHost& changes_;
  CallHost& submits_;
  CallHost& deletions_;
  StreamHost& streams_;
  const absl::Duration log_poll_interval_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_JOB_SERVICE_H_
