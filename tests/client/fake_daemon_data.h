// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/sha256.h"
#include "mpsd/v1/access.pb.h"
#include "mpsd/v1/artifacts.grpc.pb.h"
#include "mpsd/v1/daemon.pb.h"
#include "mpsd/v1/jobs.pb.h"
#include "mpsd/v1/models.pb.h"
#include "mpsd/v1/runbook.pb.h"

namespace mpsd::client {

// The blobs of a fake daemon. One thread at a time.
struct FakeUploads {
  std::map<std::string, std::string> blobs;  // by hash
  std::map<std::string, std::string> parts;  // of uploads that broke off
  // Bytes after which each of the next uploads breaks off.
  std::vector<size_t> break_offs;
  std::vector<int64_t> offsets;  // where uploads began
  int uploads = 0;               // of blobs
  int batches = 0;               // calls of UploadBatch

  void Find(const v1::FindBlobsRequest& request,
            v1::FindBlobsResponse& response) const {
    for (const std::string& hash : request.sha256()) {
      if (blobs.count(hash) > 0) {
        response.add_present(hash);
      } else if (const auto kept = parts.find(hash); kept != parts.end()) {
        v1::FindBlobsResponse::Partial& part = *response.add_partial();
        part.set_sha256(hash);
        part.set_size_bytes(static_cast<int64_t>(kept->second.size()));
      }
    }
  }

  grpc::Status Take(grpc::ServerReader<v1::UploadRequest>& reader,
                    v1::UploadResponse& response) {
    using grpc::Status, grpc::StatusCode;
    v1::UploadRequest part;
    if (!reader.Read(&part) || !part.has_header()) {
      return Status(StatusCode::INVALID_ARGUMENT, "no header");
    }
    const v1::UploadRequest::Header header = part.header();
    offsets.push_back(header.offset_bytes());
    std::string bytes;
    if (header.offset_bytes() > 0) bytes = parts[header.sha256()];
    parts.erase(header.sha256());
    if (static_cast<int64_t>(bytes.size()) != header.offset_bytes()) {
      return Status(StatusCode::OUT_OF_RANGE, "another offset");
    }
    size_t came = 0;
    while (reader.Read(&part)) {
      came += part.data().size();
      bytes += part.data();
      if (break_offs.empty() || came < break_offs[0]) continue;
      break_offs.erase(break_offs.begin());
      parts[header.sha256()] = bytes;
      return Status(StatusCode::UNAVAILABLE, "Socket closed");
    }
    if (base::Sha256Hex(bytes) != header.sha256() ||
        static_cast<int64_t>(bytes.size()) != header.size_bytes()) {
      return Status(StatusCode::INVALID_ARGUMENT,
                    "the blob's SHA-256 is another");
    }
    blobs[header.sha256()] = bytes;
    ++uploads;
    response.set_sha256(header.sha256());
    return Status::OK;
  }

  grpc::Status TakeBatch(grpc::ServerReader<v1::UploadBatchRequest>& reader,
                         v1::UploadBatchResponse& response) {
    std::map<std::string, std::string> came;
    v1::UploadBatchRequest part;
    while (reader.Read(&part)) {
      for (const v1::UploadBatchRequest::Blob& blob : part.blobs()) {
        if (base::Sha256Hex(blob.data()) != blob.sha256()) {
          return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                              "the blob's SHA-256 is another");
        }
        came[blob.sha256()] = blob.data();
      }
    }
    blobs.insert(came.begin(), came.end());
    uploads += static_cast<int>(came.size());
    response.set_stored(static_cast<int>(came.size()));
    return grpc::Status::OK;
  }
};

// What a FakeDaemon answers with, and what it was asked.
struct FakeDaemonData : FakeUploads {
  std::vector<v1::Job> jobs;                                // newest first
  std::vector<v1::Job> past;                                // likewise
  std::map<std::string, v1::JobRecord> records;             // by job
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
  // The one that the port accepts; empty: any.
  std::string authorization;

  // Of ModelService.
  struct Models {
    std::vector<v1::Model> listed;
    std::vector<v1::PushModelRequest> pushed;
    std::vector<std::string> removed;
    // What Pull streams, a list a call, and then the status of "Pull", once.
    std::vector<std::vector<v1::PullModelProgress>> pulls;
    std::vector<v1::PullModelRequest> pull_requests;
    std::vector<v1::CancelPullRequest> cancelled;
    bool pulls_wait = false;  // each stream waits until its client leaves
  } models;

  // Of RunbookService.
  struct Runbook {
    // What GetStudyResult answers; its job_id is set to what was asked for.
    v1::StudyResult study_result;
    // What Diagnose answers, one after the other; the last again and again.
    std::vector<v1::Diagnosis> diagnoses;
    std::vector<v1::DiagnoseRequest> asked;  // of Diagnose
    // What Plan answers, and what it was asked. The first `busy` calls are
    // refused as a daemon does that makes other plans.
    std::vector<v1::PlanEvent> plan_events;
    std::vector<v1::PlanRequest> plan_requests;
    int busy = 0;
    // Runs within Plan, after the events.
    std::function<void(grpc::ServerContext*)> on_plan;
  } runbook;
};

}  // namespace mpsd::client
