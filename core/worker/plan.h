// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_WORKER_PLAN_H_
#define MPSD_CORE_WORKER_PLAN_H_

#include <ostream>
#include <string>

namespace mpsd::worker {

// The arguments of mpsd-worker --plan.
struct PlanArguments {
  std::string job;    // job.json, its paths relative to itself
  std::string facts;  // file of plan::ParseFacts; empty: no facts
};

// Runs mpsd-worker --plan: reads the job's data and its model's files but no
// weights, opens no device, and computes what the job would need. For a job on
// a CUDA card, the card's name and memory reported by the driver override the
// facts. Prints JSON lines on `out`: PlanEvents of proto/mpsd/v1/plan.proto, a
// "stage" each and finally a "plan"; or, if there is no plan, {"error":
// {"code": "INVALID_ARGUMENT", "message": …}}. Human-readable text goes to
// `err`. Keeps tokenized data in the cache, where a run finds them. Returns the
// exit code: 0 for a plan, whether the job fits or not; 1 for none.
int RunPlan(const PlanArguments& arguments, std::ostream& out,
            std::ostream& err);

}  // namespace mpsd::worker

#endif  // MPSD_CORE_WORKER_PLAN_H_
