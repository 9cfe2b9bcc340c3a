// SPDX-License-Identifier: Apache-2.0
#include "client/list_fold.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/sweep_text.h"

namespace mpsd::client {
namespace {

constexpr size_t kAtOnce = 100;  // ids of one ListSweeps

v1::JobState StateOf(const v1::Sweep& sweep) {
  if (sweep.running() > 0) return v1::JOB_STATE_RUNNING;
  if (sweep.queued() > 0) return v1::JOB_STATE_QUEUED;
  if (sweep.succeeded() > 0) return v1::JOB_STATE_SUCCEEDED;
  return sweep.failed() > 0 ? v1::JOB_STATE_FAILED : v1::JOB_STATE_CANCELLED;
}

}  // namespace

v1::Job RowOf(const v1::Sweep& sweep) {
  v1::Job row;
  row.set_id(sweep.id());
  row.set_sweep_id(sweep.id());
  row.set_owner(sweep.owner());
  row.set_state(StateOf(sweep));
  row.set_name(absl::StrCat(sweep.name(), sweep.name().empty() ? "" : " ",
                            "(sweep: ", SweepProgress(sweep), ")"));
  *row.mutable_create_time() = sweep.create_time();
  if (sweep.has_best_metric() && sweep.metric() == "loss") {
    row.set_eval_loss_after(sweep.best_metric());
  }
  return row;
}

void FoldSweeps(Connection& daemon,
                google::protobuf::RepeatedPtrField<v1::Job>* jobs) {
  std::map<std::string, std::vector<v1::Job*>> rows;
  for (v1::Job& job : *jobs) {
    if (!job.sweep_id().empty()) rows[job.sweep_id()].push_back(&job);
  }
  for (auto row = rows.begin(); row != rows.end();) {
    v1::ListSweepsRequest request;
    request.set_page_size(kAtOnce);
    for (size_t i = 0; i < kAtOnce && row != rows.end(); ++i, ++row) {
      request.add_ids(row->first);
    }
    grpc::ClientContext context;
    SetDeadline(context);
    v1::ListSweepsResponse response;
    const grpc::Status status =
        daemon.sweeps().ListSweeps(&context, request, &response);
    if (!status.ok()) return;
    for (const v1::Sweep& sweep : response.sweeps()) {
      for (v1::Job* job : rows[sweep.id()]) *job = RowOf(sweep);
    }
  }
}

}  // namespace mpsd::client
