// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CORE_TRAIN_CLASS_JOB_H_
#define MPSD_TESTS_CORE_TRAIN_CLASS_JOB_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/file.h"
#include "nlohmann/json.hpp"
#include "tests/core/golden_model.h"
#include "tests/core/job_folder.h"
#include "tests/core/status_matchers.h"
#include "tests/core/train/lm_job.h"

namespace mpsd::train {

using nlohmann::json;

// A folder with a job of classification over a tiny network from scratch.
class ClassJob {
 public:
  explicit ClassJob(const std::string& name)
      : path_(testing_support::FreshFolder(name)) {}

  const std::filesystem::path& path() const { return path_; }

  void Write(const std::string& name, const std::string& contents) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << contents;
  }

  // Trains into `out`; relative paths are below the folder.
  absl::StatusOr<RunResult> Train(const std::string& out, Observer& observer) {
    Write("job.json", job.dump());
    return train::Train(job, path_, out, observer);
  }
  absl::StatusOr<RunResult> Train(const std::string& out) {
    testing_support::RecordingObserver observer;
    return Train(out, observer);
  }

  std::string Bytes(const std::string& file) const {
    return base::ReadFile(path_ / file).value();
  }
  json Json(const std::string& file) const { return json::parse(Bytes(file)); }

  json job;

 private:
  const std::filesystem::path path_;
};

// A BERT of two layers with the golden tokenizer, and texts that a word in them
// decides.
class TextJob : public ClassJob {
 public:
  explicit TextJob(const std::string& name) : ClassJob(name) {
    namespace fs = std::filesystem;
    const fs::path golden = testing_support::Golden("smollm", "model");
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
    ASSERT_THAT(Train("pretrained"), testing_support::IsOk());
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

#endif  // MPSD_TESTS_CORE_TRAIN_CLASS_JOB_H_
