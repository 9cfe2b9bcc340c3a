// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_JOB_SERVICE_H_
#define MPSD_SERVER_RPC_JOB_SERVICE_H_

#include "absl/time/time.h"
#include "mpsd/v1/jobs.grpc.pb.h"
#include "server/jobs/job_manager.h"
#include "server/records/job_records.h"
#include "server/rpc/gate.h"
#include "server/rpc/stream_host.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/user_accounts.h"

namespace mpsd::rpc {

// mpsd.v1.JobService over the queue. The borrowed objects must outlive the
// service.
class JobService final : public v1::JobService::CallbackService {
 public:
  // The threads on which unary calls run.
  struct Hosts {
    CallHost& reads;      // calls that have no host below
    CallHost& lists;      // List, which may look at every job
    CallHost& changes;    // Cancel, Hold …, which wait for the store
    CallHost& submits;    // Submit, which works on the disk
    CallHost& deletions;  // Delete … and Retry, which work on the disk
  };
  JobService(const Gate& gate, jobs::JobManager& manager,
             jobs::JobReader& reader, records::JobRecords* records,
             const UserAccounts& accounts, Hosts hosts, StreamHost& streams,
             absl::Duration log_poll_interval)
      : gate_(gate),
        manager_(manager),
        reader_(reader),
        records_(records),
        accounts_(accounts),
        reads_(hosts.reads),
        lists_(hosts.lists),
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
  grpc::ServerUnaryReactor* GetRecord(grpc::CallbackServerContext* context,
                                      const v1::GetRecordRequest* request,
                                      v1::GetRecordResponse* response) override;
  grpc::ServerUnaryReactor* AddNote(grpc::CallbackServerContext* context,
                                    const v1::AddNoteRequest* request,
                                    v1::GetRecordResponse* response) override;
  grpc::ServerUnaryReactor* Tag(grpc::CallbackServerContext* context,
                                const v1::TagRequest* request,
                                v1::GetRecordResponse* response) override;
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
  grpc::ServerUnaryReactor* DeleteJobs(
      grpc::CallbackServerContext* context,
      const v1::DeleteJobsRequest* request,
      v1::DeleteJobsResponse* response) override;
  grpc::ServerUnaryReactor* Pin(grpc::CallbackServerContext* context,
                                const v1::PinRequest* request,
                                v1::Job* response) override;
  grpc::ServerUnaryReactor* Unpin(grpc::CallbackServerContext* context,
                                  const v1::UnpinRequest* request,
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
  grpc::ServerUnaryReactor* GetSubmission(
      grpc::CallbackServerContext* context,
      const v1::GetSubmissionRequest* request,
      v1::SubmitRequest* response) override;
  grpc::ServerUnaryReactor* Queue(grpc::CallbackServerContext* context,
                                  const v1::QueueRequest* request,
                                  v1::QueueResponse* response) override;
  grpc::ServerUnaryReactor* Hold(grpc::CallbackServerContext* context,
                                 const v1::HoldRequest* request,
                                 v1::Job* response) override;
  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* context,
                                    const v1::ReleaseRequest* request,
                                    v1::Job* response) override;
  grpc::ServerUnaryReactor* Move(grpc::CallbackServerContext* context,
                                 const v1::MoveRequest* request,
                                 v1::Job* response) override;
  grpc::ServerUnaryReactor* Retry(grpc::CallbackServerContext* context,
                                  const v1::RetryRequest* request,
                                  v1::Job* response) override;

 private:
  const Gate& gate_;
  jobs::JobManager& manager_;
  jobs::JobReader& reader_;
  records::JobRecords* const records_;
  const UserAccounts& accounts_;
  CallHost& reads_;
  CallHost& lists_;
  CallHost& changes_;
  CallHost& submits_;
  CallHost& deletions_;
  StreamHost& streams_;
  const absl::Duration log_poll_interval_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_JOB_SERVICE_H_
