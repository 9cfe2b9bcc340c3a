// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/train/observer.h"
#include "nlohmann/json.hpp"
#include "tests/core/golden_model.h"

namespace mpsd {
inline namespace testing_support {

using nlohmann::json;

// A folder with data, and the job.json of a run over the golden model "smollm",
// which has a tokenizer.
class JobFolder {
 public:
  explicit JobFolder(const std::string& name) : path_(FreshFolder(name)) {
    WriteRows("train.jsonl", 10);
    WriteRows("eval.jsonl", 3);
    job_ = {
        {"model", Golden("smollm", "model").string()},
        {"dataset", {{"train", "train.jsonl"}, {"eval", "eval.jsonl"}}},
        {"lora",
         {{"r", 4}, {"lora_dropout", 0.1}, {"target_modules", "all-linear"}}},
        {"training",
         {{"max_steps", 8},
          {"per_device_train_batch_size", 2},
          {"learning_rate", 1e-2},
          {"max_length", 48},
          {"eval_steps", 4},
          {"save_steps", 4}}},
        {"device", "cpu"}};
  }

  json& job() { return job_; }
  json& training() { return job_["training"]; }
  const fs::path& path() const { return path_; }

  // Writes job.json and returns its path.
  fs::path Write() const {
    std::ofstream(path_ / "job.json") << job_.dump(1);
    return path_ / "job.json";
  }

  void WriteRows(const std::string& name, int rows) const {
    std::ofstream file(path_ / name);
    for (int i = 0; i < rows; ++i) {
      std::string text = "row";
      for (int j = 0; j <= i % 4; ++j) text += " word" + std::to_string(i * j);
      file << json{{"text", text}}.dump() << "\n";
    }
  }

 private:
  fs::path path_;
  json job_;
};

// Keeps all reports; asks for a stop after `stop_after` steps, or when it
// was asked `stop_when_asked` times.
class RecordingObserver : public train::Observer {
 public:
  void OnDevice(const std::string& name) override { devices.push_back(name); }
  void OnStage(const std::string& stage, double) override {
    stages.push_back(stage);
    if (stage == stop_at_stage) request = train::StopRequest::kPreempt;
  }
  void OnStep(const report::Progress& report) override {
    steps.push_back(report);
    if (report.step == stop_after) request = stop_kind;
  }
  void OnEval(const report::Evaluated& report) override {
    evals.push_back(report);
  }
  void OnSample(const report::Sampled& report) override {
    samples.push_back(report);
  }
  void OnCheckpoint(const report::Checkpointed& report) override {
    checkpoints.push_back(report);
  }
  train::StopRequest stop_request() override {
    if (++asked == stop_when_asked) request = stop_kind;
    return request;
  }

  int64_t asked = 0;  // stop_request, so far
  int64_t stop_when_asked = -1;
  int64_t stop_after = -1;
  std::string stop_at_stage = "never";
  train::StopRequest stop_kind = train::StopRequest::kPreempt;
  train::StopRequest request = train::StopRequest::kNone;
  std::vector<std::string> devices, stages;
  std::vector<report::Progress> steps;
  std::vector<report::Evaluated> evals;
  std::vector<report::Sampled> samples;
  std::vector<report::Checkpointed> checkpoints;
};

}  // namespace testing_support
}  // namespace mpsd
