// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CLIENT_FAKE_DAEMON_DATA_H_
#define MPSD_TESTS_CLIENT_FAKE_DAEMON_DATA_H_

#include <grpcpp/support/status.h>

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "mpsd/v1/access.pb.h"
#include "mpsd/v1/artifacts.pb.h"
#include "mpsd/v1/daemon.pb.h"
#include "mpsd/v1/jobs.pb.h"
#include "tests/client/fake_uploads.h"

namespace mpsd::client {

// What a FakeDaemon answers with, and what it was asked.
struct FakeDaemonData : FakeUploads {
  std::vector<v1::Job> jobs;                     // newest first
  std::vector<v1::Job> past;                     // likewise
  std::map<std::string, v1::JobRecord> records;  // by job
  std::vector<v1::TagRequest> tagged;
  std::map<std::string, std::vector<v1::JobEvent>> events;  // by job
  std::map<std::string, std::string> logs;
  std::map<std::string, std::vector<v1::Checkpoint>> checkpoints;
  std::vector<v1::DownloadResponse> download;
  std::vector<v1::DownloadResponse> manifest;  // sent to who asks for it
  v1::InfoResponse info;
  v1::QueueResponse queue;
  std::vector<v1::SubmitRequest> submitted;
  std::vector<std::chrono::system_clock::time_point> submit_deadlines;
  std::set<std::string> keys;
  int made = 0;          // jobs, by Submit
  int most_made = 1000;  // Submit refuses further ones
  // What Submit ends with though the job is made, call by call; OK: it is
  // idle (on_idle) until the connection breaks.
  std::vector<grpc::Status> lost;
  std::vector<v1::RetryRequest> retried;
  std::map<std::string, v1::SubmitRequest> requests;  // GetSubmission's
  std::vector<v1::WatchRequest> watched;
  std::vector<v1::ListJobsRequest> listed;
  std::vector<v1::FindJobsRequest> found;
  std::vector<v1::CancelRequest> cancelled;
  std::vector<v1::HoldRequest> held;
  std::vector<std::string> released;
  std::vector<v1::MoveRequest> moved;
  std::vector<v1::DrainRequest> drained;
  int undrained = 0;
  std::vector<v1::DeleteJobsRequest> deleted;
  std::vector<v1::DeleteJobsResponse> delete_answers;  // the last one stays
  v1::PlanCollectionResponse plan;
  v1::CollectResponse collected;
  int collections = 0;
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
  bool filters_states = false;  // true: List leaves out jobs of other states
  std::vector<v1::AuditEntry> audit;  // newest first
  std::vector<v1::ListAuditRequest> audited;
  v1::WhoAmIResponse who;
  std::vector<v1::Token> tokens;  // newest first
  std::vector<v1::CreateTokenRequest> tokens_asked;
  // What the calls over the port carried as "authorization", by the method's
  // path; "" where they carried none.
  std::multimap<std::string, std::string> authorizations;
  // The one that the port lets in; empty: everybody.
  std::string authorization;
};

}  // namespace mpsd::client

#endif  // MPSD_TESTS_CLIENT_FAKE_DAEMON_DATA_H_
