// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CLIENT_FAKE_SWEEPS_H_
#define MPSD_TESTS_CLIENT_FAKE_SWEEPS_H_

#include <grpcpp/server_context.h>

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "mpsd/v1/sweep.grpc.pb.h"

namespace mpsd::client {

// The SweepService of a FakeDaemon, out of plain data.
class FakeSweeps final : public v1::SweepService::Service {
 public:
  using Context = grpc::ServerContext;
  using Status = grpc::Status;

  // The daemon's own: its lock, what its methods end with.
  FakeSweeps(absl::Mutex& mutex, std::map<std::string, Status>& fail)
      : mutex_(mutex), fail_(fail) {}

  std::vector<v1::Sweep> sweeps;  // newest first
  std::vector<v1::CreateSweepRequest> created;
  std::vector<std::string> cancelled;
  // What the next calls of GetSweep answer; then the sweep as it is.
  std::deque<v1::Sweep> course;

  Status CreateSweep(Context*, const v1::CreateSweepRequest* request,
                     v1::Sweep* response) override;
  Status GetSweep(Context*, const v1::GetSweepRequest* request,
                  v1::Sweep* response) override;
  Status ListSweeps(Context*, const v1::ListSweepsRequest* request,
                    v1::ListSweepsResponse* response) override;
  Status CancelSweep(Context*, const v1::CancelSweepRequest* request,
                     v1::Sweep* response) override;

 private:
  bool Find(const std::string& id, v1::Sweep* found) const;
  static Status NoSuch();
  Status Failure(const std::string& method);

  absl::Mutex& mutex_;
  std::map<std::string, Status>& fail_;
};

// A sweep of three children: the second one was the best, the third one lost.
inline v1::Sweep SomeSweep(const std::string& id) {
  v1::Sweep sweep;
  sweep.set_id(id);
  sweep.set_name("tiny");
  sweep.set_owner("ann");
  sweep.set_strategy(v1::SWEEP_STRATEGY_GRID);
  sweep.set_metric("loss");
  sweep.set_eta(2);
  sweep.add_rungs(4);
  sweep.set_rungs_decided(1);
  sweep.set_total(3);
  sweep.set_succeeded(1);
  sweep.set_cancelled(1);
  sweep.set_running(1);
  sweep.set_best_job_id("01KAH0000000000000000000BB");
  sweep.set_best_metric(0.25);
  auto* rate = sweep.add_parameters();
  rate->set_field("training.learning_rate");
  rate->mutable_choices()->add_values("1e-4");
  auto* kind = sweep.add_parameters();
  kind->set_field("training.lr_scheduler_type");
  const char* ids[] = {"01KAH0000000000000000000BB",
                       "01KAH0000000000000000000AA",
                       "01KAH0000000000000000000CC"};
  const char* rates[] = {"0.0003", "0.0001", "0.001"};
  const char* kinds[] = {"\"linear\"", "\"cosine\"", "\"linear\""};
  const v1::JobState states[] = {v1::JOB_STATE_SUCCEEDED, v1::JOB_STATE_RUNNING,
                                 v1::JOB_STATE_CANCELLED};
  for (int i = 0; i < 3; ++i) {
    auto* child = sweep.add_children();
    child->set_job_id(ids[i]);
    child->set_position((i + 1) % 3);
    child->add_values(rates[i]);
    child->add_values(kinds[i]);
    child->set_state(states[i]);
    child->set_step(i == 2 ? 4 : 8);
    child->set_rungs_passed(i == 2 ? 0 : 1);
    child->set_rank(i + 1);
    child->set_metric(0.25 * (i + 1));
    child->set_name("tiny " + std::to_string(i));
  }
  sweep.mutable_children(2)->set_message("ended by its sweep at step 4");
  return sweep;
}

}  // namespace mpsd::client

#endif  // MPSD_TESTS_CLIENT_FAKE_SWEEPS_H_
