// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_WORKER_SELFTEST_H_
#define MPSD_CORE_WORKER_SELFTEST_H_

#include <filesystem>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "core/selftest/checks.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

namespace mpsd::worker {

struct SelftestOptions {
  // "auto" is the machine's accelerator; without one nothing is tested.
  std::string device = "auto";  // or "mps", "cuda", "cpu"
  // The file of the verdict; empty: in the cache folder.
  std::filesystem::path verdict;
  std::filesystem::path job;  // job whose sizes are tested, or empty
  bool force = false;         // ignores a stored verdict
};

// Runs mpsd-worker --selftest: compares the device's kernels with the CPU's,
// prints a table and stores the verdict. If a stored verdict of the same
// device, system, torch, checks and sizes has passed, prints that one without a
// test. Returns the exit code: 0 correct, 1 incorrect, 2 invalid input or no
// such device.
int RunSelftest(const SelftestOptions& options, std::ostream& out,
                std::ostream& err);

// The sizes at which a job trains a model. A job without texts counts an
// image's tokens.
selftest::Sizes SizesOf(const spec::TrainSpec& spec,
                        const spec::ModelConfig& config);

}  // namespace mpsd::worker

#endif  // MPSD_CORE_WORKER_SELFTEST_H_
