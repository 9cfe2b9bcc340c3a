// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CORE_TRAIN_LM_JOB_H_
#define MPSD_TESTS_CORE_TRAIN_LM_JOB_H_

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

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

// run.json of a run's folder.
inline nlohmann::json RunJson(const std::filesystem::path& out) {
  return nlohmann::json::parse(*base::ReadFile(out / "run.json"));
}

// The steps of metrics.jsonl or eval.jsonl.
inline std::vector<int64_t> StepsIn(const std::filesystem::path& file) {
  std::vector<int64_t> steps;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    steps.push_back(nlohmann::json::parse(line)["step"]);
  }
  return steps;
}

}  // namespace mpsd::train

#endif  // MPSD_TESTS_CORE_TRAIN_LM_JOB_H_
