// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CLIENT_FAKE_RUNBOOK_H_
#define MPSD_TESTS_CLIENT_FAKE_RUNBOOK_H_

#include <grpcpp/server_context.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "mpsd/v1/runbook.grpc.pb.h"

namespace mpsd::client {

// The RunbookService of a FakeDaemon, out of plain data.
class FakeRunbook final : public v1::RunbookService::Service {
 public:
  using Context = grpc::ServerContext;
  using Status = grpc::Status;

  // The daemon's own: its lock, what its methods end with.
  FakeRunbook(absl::Mutex& mutex, std::map<std::string, Status>& fail)
      : mutex_(mutex), fail_(fail) {}

  // What GetStudyResult answers, the list's one after the other and then the
  // other; its job_id is set to what was asked for.
  std::vector<v1::StudyResult> study_results;
  v1::StudyResult study_result;

  // What Diagnose answers, one after the other; the last again and again.
  std::vector<v1::Diagnosis> diagnoses;
  std::vector<v1::DiagnoseRequest> asked;  // of Diagnose

  Status Diagnose(Context*, const v1::DiagnoseRequest* request,
                  v1::Diagnosis* response) override;

  // What Plan answers, and what it was asked. The first `busy` calls are
  // refused as a daemon does that makes other plans.
  std::vector<v1::PlanEvent> plan_events;
  std::vector<v1::PlanRequest> plan_requests;
  int busy = 0;
  // Runs within Plan, behind the events.
  std::function<void(Context*)> on_plan;

  Status Plan(Context* context, const v1::PlanRequest* request,
              grpc::ServerWriter<v1::PlanEvent>* writer) override;

  Status GetStudyResult(Context*, const v1::GetStudyResultRequest* request,
                        v1::StudyResult* response) override;

 private:
  Status Failure(const std::string& method);

  absl::Mutex& mutex_;
  std::map<std::string, Status>& fail_;
};

}  // namespace mpsd::client

#endif  // MPSD_TESTS_CLIENT_FAKE_RUNBOOK_H_
