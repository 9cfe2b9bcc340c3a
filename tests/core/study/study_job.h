// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "core/base/file.h"
#include "core/data/source.h"
#include "core/spec/train_spec.h"
#include "core/study/study.h"
#include "core/train/run.h"
#include "core/worker/run_job.h"
#include "nlohmann/json.hpp"
#include "tests/core/job_folder.h"

namespace mpsd::study {

// The golden model's job, to be studied.
class StudyJob : public JobFolder {
 public:
  explicit StudyJob(const std::string& name) : JobFolder(name) {
    context_.out_dir = path() / "out";
    context_.cache_dir = path();
    context_.mpsd_version = "0.1.0";
    context_.torch_version = "2.11.0";
    context_.attempt = worker::Attempt;
    fs::create_directories(context_.out_dir);
  }

  spec::TrainSpec Spec() const {
    auto spec = *spec::ParseTrainSpec(*base::ReadFile(Write()), "job.json");
    return spec::ResolvePaths(std::move(spec), path().string());
  }
  train::RunContext& context() { return context_; }
  const train::RunContext& context() const { return context_; }

  absl::StatusOr<train::RunResult> Study(wire::JobKind kind,
                                         const nlohmann::json& options,
                                         train::Observer& observer) const {
    return study::Run(kind, options.dump(), Spec(), context_, observer);
  }
  // The study's result.json.
  nlohmann::json Result() const {
    return nlohmann::json::parse(
        base::ReadFile(context_.out_dir / "result.json").value());
  }
  // The finding of that name; null if there is no such finding.
  nlohmann::json Finding(const std::string& name) const {
    const nlohmann::json result = Result();
    for (const nlohmann::json& finding : result["findings"]) {
      if (finding["name"] == name) return finding;
    }
    return nullptr;
  }

 private:
  train::RunContext context_;
};

// Samples of one token, the sample's number, whose batches take a while to make
// and fail where they are set to.
class SlowSource : public data::Source {
 public:
  SlowSource(int64_t size, absl::Duration delay) : size_(size), delay_(delay) {}

  int64_t size() const override { return size_; }
  int64_t length(int64_t) const override { return 1; }
  absl::StatusOr<data::Batch> Collate(
      const std::vector<std::vector<int64_t>>& rows,
      const data::Collation&) const override {
    absl::SleepFor(delay_);
    if (!error.ok()) return error;
    data::Batch batch;
    batch.rows = static_cast<int64_t>(rows.size());
    batch.length = 1;
    for (const std::vector<int64_t>& row : rows) {
      batch.input_ids.push_back(row.at(0));
      batch.labels.push_back(row.at(0));
      batch.segment_ids.push_back(0);
    }
    return batch;
  }
  std::string hash() const override { return "slow"; }
  const data::DatasetStats& stats() const override { return stats_; }

  absl::Status error;

 private:
  const int64_t size_;
  const absl::Duration delay_;
  const data::DatasetStats stats_;
};

}  // namespace mpsd::study
