// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CORE_TRAIN_LM_JOB_H_
#define MPSD_TESTS_CORE_TRAIN_LM_JOB_H_

#include <filesystem>
#include <string>

#include "core/base/file.h"
#include "core/spec/train_spec.h"
#include "core/train/run.h"
#include "nlohmann/json.hpp"
#include "tests/core/job_folder.h"

namespace mpsd::train {

// Runs `job`, whose relative paths are below `folder`, into folder/out.
inline absl::StatusOr<RunResult> Train(const nlohmann::json& job,
                                       const std::filesystem::path& folder,
                                       const std::string& out,
                                       Observer& observer) {
  auto spec = spec::ParseTrainSpec(job.dump(), "job.json");
  if (!spec.ok()) return spec.status();
  RunContext context;
  context.out_dir = folder / out;
  context.cache_dir = folder;
  return Run(spec::ResolvePaths(*std::move(spec), folder.string()), context,
             observer);
}

inline absl::StatusOr<RunResult> Train(const testing_support::JobFolder& folder,
                                       const std::string& out,
                                       Observer& observer) {
  const auto job = nlohmann::json::parse(*base::ReadFile(folder.Write()));
  return Train(job, folder.path(), out, observer);
}

inline std::string AdapterBytes(const std::filesystem::path& out) {
  return *base::ReadFile(out / "adapter" / "adapter_model.safetensors");
}

inline std::string AdapterBytes(const testing_support::JobFolder& folder,
                                const std::string& out) {
  return AdapterBytes(folder.path() / out);
}

}  // namespace mpsd::train

#endif  // MPSD_TESTS_CORE_TRAIN_LM_JOB_H_
