// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_OPS_JOBS_H_
#define MPSD_TESTS_OPS_JOBS_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/ops/recorder.h"

namespace mpsd::ops {

// A job as users write it, over a tiny model: what it is of, and how it differs
// from its task's plain one.
struct Configuration {
  std::string name;    // "causal_lm_llama3_lora"
  std::string family;  // a folder of tests/golden
  std::string model;   // merge patch of its config.json
  std::string job;     // merge patch of the task's job.json
};

// "CAUSAL_LM", "SEQ_CLS" or "IMAGE_CLS".
std::vector<Configuration> Configurations(const std::string& task);

// What a run asked of the fake MPS: parts are "step", "evaluation",
// "checkpoint", and "begin" and "end" around them.
struct Recording {
  std::vector<RecordedPart> parts;
  std::map<std::string, int64_t> missing;
  std::set<std::string> faults;
  std::vector<double> losses;  // of the steps
  int64_t max_length = 0;      // of the job

  std::vector<const RecordedPart*> named(const std::string& name) const;
};

// Runs the job through train::Run on `device` ("mps", "cpu"): six steps,
// evaluations, a checkpoint, its end; from then on again, which reads the
// checkpoint. A run is made once a process and kept.
const Recording& RecordingOf(const std::string& task,
                             const Configuration& configuration,
                             const std::string& device = "mps");

}  // namespace mpsd::ops

#endif  // MPSD_TESTS_OPS_JOBS_H_
