// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/file.h"
#include "core/ckpt/safetensors.h"
#include "core/device/device.h"
#include "core/lora/lora.h"
#include "core/optim/adamw.h"
#include "core/spec/train_spec.h"
#include "core/train/evaluate.h"
#include "core/train/language_modelling.h"
#include "core/train/run.h"
#include "nlohmann/json.hpp"
#include "tests/core/golden_model.h"
#include "tests/core/job_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd::train {

// Rows of `lengths`, padded to `length`; every token but the first is a label.
inline data::Batch MakeBatch(const std::vector<int64_t>& lengths,
                             int64_t length, int64_t first_token = 3) {
  data::Batch batch;
  batch.rows = lengths.size();
  batch.length = length;
  int64_t token = first_token;
  for (const int64_t n : lengths) {
    for (int64_t i = 0; i < length; ++i) {
      const bool real = i < n;
      token = (token * 7 + 11) % 96;
      batch.input_ids.push_back(real ? token : 0);
      batch.labels.push_back(real && i > 0 ? token : base::kIgnoreIndex);
      batch.position_ids.push_back(real ? i : 0);
      batch.segment_ids.push_back(real ? 0 : -1);
      batch.tokens += real;
      batch.label_tokens += real && i > 0;
      batch.loss_weight += real && i > 0;
    }
  }
  return batch;
}

// Batches made beforehand: sample i is batch i.
class Batches : public data::Source {
 public:
  explicit Batches(std::vector<data::Batch> batches)
      : batches_(std::move(batches)) {}
  int64_t size() const override { return batches_.size(); }
  int64_t length(int64_t index) const override {
    return batches_[index].length;
  }
  absl::StatusOr<data::Batch> Collate(
      const std::vector<std::vector<int64_t>>& rows,
      const data::Collation&) const override {
    return batches_[rows[0][0]];
  }
  std::string hash() const override { return ""; }
  const data::DatasetStats& stats() const override { return stats_; }

 private:
  const std::vector<data::Batch> batches_;
  data::DatasetStats stats_;
};

// The golden model "llama3" with adapters on every linear, as a task trains it.
class LmParts : public testing::Test {
 protected:
  LmParts() : pipeline_(spec_) {
    const std::string folder = Golden("llama3", "model").string();
    auto weights = *tensorfile::Weights::Open(folder);
    network_ = *pipeline_.LoadModel({weights.get()},
                                    *spec::ReadModelConfig(folder), nullptr);
    at::manual_seed(10);
    spec::LoraSpec lora;
    lora.target_modules = spec::LoraSpec::AllLinear{};
    adapter_ = *lora::Adapter::Attach(*network_, lora, at::kCPU);
    // B is zero at first: with noise every gradient is something.
    at::NoGradGuard no_grad;
    at::Tensor values = adapter_->parameters().groups()[0].values;
    values.add_(at::randn_like(values) * 0.1);
  }
  TrainingSubject subject() {
    return {pipeline_, *network_, *adapter_, *device_};
  }

  spec::TrainSpec spec_;
  LanguageModelling pipeline_;
  std::unique_ptr<model::Network> network_;
  std::unique_ptr<device::Device> device_ = *device::OpenCpu();
  std::unique_ptr<lora::Adapter> adapter_;
};

// Runs `job`, whose relative paths are below `folder`, into folder/out.
inline absl::StatusOr<RunResult> Train(const nlohmann::json& job,
                                       const fs::path& folder,
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

inline absl::StatusOr<RunResult> Train(const JobFolder& folder,
                                       const std::string& out,
                                       Observer& observer) {
  const auto job = nlohmann::json::parse(*base::ReadFile(folder.Write()));
  return Train(job, folder.path(), out, observer);
}

inline std::string AdapterBytes(const fs::path& out) {
  return *base::ReadFile(out / "adapter" / "adapter_model.safetensors");
}

inline std::string AdapterBytes(const JobFolder& folder,
                                const std::string& out) {
  return AdapterBytes(folder.path() / out);
}

// run.json of a run's folder.
inline nlohmann::json RunJson(const fs::path& out) {
  return nlohmann::json::parse(*base::ReadFile(out / "run.json"));
}

// The steps of metrics.jsonl or eval.jsonl.
inline std::vector<int64_t> StepsIn(const fs::path& file) {
  std::vector<int64_t> steps;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    steps.push_back(nlohmann::json::parse(line)["step"]);
  }
  return steps;
}

// A folder with a job of classification over a tiny network from scratch.
class ClassJob {
 public:
  explicit ClassJob(const std::string& name) : path_(FreshFolder(name)) {}

  const fs::path& path() const { return path_; }

  void Write(const std::string& name, const std::string& contents) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << contents;
  }

  // Trains into `out`; relative paths are below the folder.
  absl::StatusOr<RunResult> Train(const std::string& out, Observer& observer) {
    Write("job.json", job.dump());
    return train::Train(job, path_, out, observer);
  }
  absl::StatusOr<RunResult> Train(const std::string& out) {
    RecordingObserver observer;
    return Train(out, observer);
  }

  std::string Bytes(const std::string& file) const {
    return base::ReadFile(path_ / file).value();
  }
  json Json(const std::string& file) const { return json::parse(Bytes(file)); }

  json job;

 private:
  const fs::path path_;
};

// A BERT of two layers with the golden tokenizer, and texts that a word in them
// decides.
class TextJob : public ClassJob {
 public:
  explicit TextJob(const std::string& name) : ClassJob(name) {
    namespace fs = std::filesystem;
    const fs::path golden = Golden("smollm", "model");
    fs::create_directories(path() / "bert");
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) {
      fs::copy_file(golden / file, path() / "bert" / file);
    }
    json config = {
        {"model_type", "bert"},       {"hidden_size", 32},
        {"intermediate_size", 64},    {"num_hidden_layers", 2},
        {"num_attention_heads", 4},   {"max_position_embeddings", 64},
        {"hidden_dropout_prob", 0.1}, {"attention_probs_dropout_prob", 0.1}};
    config["vocab_size"] =
        json::parse(*base::ReadFile(golden / "config.json"))["vocab_size"];
    Write("bert/config.json", config.dump());
    Write("train.csv", Rows(48, 0));
    Write("eval.csv", Rows(16, 100));
    job = {{"model", "bert"},
           {"task", "SEQ_CLS"},
           {"fine_tune_type", "full"},
           {"from_scratch", true},
           {"dataset", {{"train", "train.csv"}, {"eval", "eval.csv"}}},
           {"training",
            {{"max_steps", 48},
             {"per_device_train_batch_size", 8},
             {"learning_rate", 5e-3},
             {"eval_steps", 24},
             {"save_steps", 24}}},
           {"device", "cpu"}};
  }

  // Its weights are there afterwards: for LoRA and heads.
  void Pretrain() {
    ASSERT_THAT(Train("pretrained"), IsOk());
    job["model"] = "pretrained/model";
    job["from_scratch"] = false;
  }

  static std::string Rows(int count, int first) {
    std::string rows = "text,label\n";
    for (int i = first; i < first + count; ++i) {
      const bool good = i % 2 == 0;
      rows += "row number " + std::to_string(i * 7) +
              (good ? " is fine,pos\n" : " broke down,neg\n");
    }
    return rows;
  }
};

}  // namespace mpsd::train
