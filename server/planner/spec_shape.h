// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PLANNER_SPEC_SHAPE_H_
#define MPSD_SERVER_PLANNER_SPEC_SHAPE_H_

#include <string>

#include "absl/status/status.h"
#include "core/spec/train_spec.h"
#include "server/jobs/job_manager.h"

namespace mpsd::planner {

// What of a job.json decides how long a token takes and how rows become
// batches, the model, the data and the device left out: equal texts for jobs of
// one shape.
std::string SpeedShape(const spec::TrainSpec& spec);

// OK where a probe of `probed` measured the steps of `planned`: they differ in
// nothing but what changes no step's memory and time (rates, names, lengths of
// the run, evaluation, checkpoints). InvalidArgument names a field.
absl::Status CheckSameSteps(const jobs::SubmitRequest& probed,
                            const jobs::SubmitRequest& planned);

}  // namespace mpsd::planner

#endif  // MPSD_SERVER_PLANNER_SPEC_SHAPE_H_
