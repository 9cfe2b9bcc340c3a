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
  // "auto" is the accelerator there is; without one there is nothing to test.
  std::string device = "auto";  // or "mps", "cuda", "cpu"
  // Where the verdict lies and goes; empty: in the cache folder.
  std::filesystem::path verdict;
  std::filesystem::path job;  // whose sizes to test at, or empty
  bool force = false;         // a verdict that there is does not count
};

// mpsd-worker --selftest: compares the device's kernels with the CPU's, prints
// a table, keeps the verdict. One that passed, of the same device, system,
// torch, checks and sizes, is repeated without testing. Returns the exit code:
// 0 the device is right, 1 it is wrong, 2 the user's input, or no such device.
int RunSelftest(const SelftestOptions& options, std::ostream& out,
                std::ostream& err);

// The sizes at which a job trains a model. A job without texts has the tokens
// of its images.
selftest::Sizes SizesOf(const spec::TrainSpec& spec,
                        const spec::ModelConfig& config);

}  // namespace mpsd::worker

#endif  // MPSD_CORE_WORKER_SELFTEST_H_
