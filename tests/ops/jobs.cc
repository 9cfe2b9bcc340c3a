// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/jobs.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/file.h"
#include "core/ckpt/safetensors.h"
#include "core/train/run.h"
#include "nlohmann/json.hpp"
#include "tests/core/golden_model.h"
#include "tests/core/scratch_folder.h"
#include "tests/ops/models.h"

namespace mpsd::ops {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kSteps = 6;

// Closes a part of the recording at each report of the trainer.
class PartObserver : public train::Observer {
 public:
  explicit PartObserver(Recorder* recorder) : recorder_(recorder) {}
  void OnStage(const std::string& stage, double) override {
    // Reading a checkpoint is no part of the step that follows.
    if (stage == "training" || stage.starts_with("resuming")) {
      Close("begin");
    }
  }
  void OnStep(const report::Progress& report) override {
    losses.push_back(report.loss);
    Close("step");
    stop_ = report.step == kSteps - 2 && !resumed;
  }
  void OnEval(const report::Evaluated&) override { Close("evaluation"); }
  void OnCheckpoint(const report::Checkpointed&) override {
    Close("checkpoint");
  }
  train::StopRequest stop_request() override {
    return stop_ ? train::StopRequest::kPreempt : train::StopRequest::kNone;
  }
  void Close(const std::string& name) {
    if (recorder_ != nullptr) recorder_->Close(name);
  }

  bool resumed = false;
  std::vector<double> losses;

 private:
  Recorder* const recorder_;
  bool stop_ = false;
};

// Rows of several lengths, so that batches have several.
std::string Words(int row) {
  std::string text = "row";
  for (int i = 0; i <= row * 3 % 7; ++i) text += " w" + std::to_string(i * row);
  return text;
}

void WriteTexts(const fs::path& folder) {
  std::ofstream train(folder / "texts.jsonl");
  for (int i = 0; i < 24; ++i) {
    train << json{{"text", Words(i)}}.dump() << "\n";
  }
}

void WriteClasses(const fs::path& folder) {
  std::ofstream one(folder / "classes.csv"), two(folder / "pairs.csv");
  std::ofstream numbers(folder / "numbers.csv");
  std::ofstream several(folder / "several.jsonl");
  one << "text,label\n";
  two << "sentence1,sentence2,label\n";
  numbers << "text,label\n";
  for (int i = 0; i < 24; ++i) {
    const char* label = i % 2 == 0 ? "even" : "odd";
    one << Words(i) << "," << label << "\n";
    two << "r" << i << "," << Words(i) << "," << label << "\n";
    numbers << Words(i) << "," << i % 5 << ".5\n";
    json labels = json::array();
    if (i % 2 == 0) labels.push_back("a");
    if (i % 3 == 0) labels.push_back("b");
    several << json{{"text", Words(i)}, {"label", labels}}.dump() << "\n";
  }
}

void WriteImages(const fs::path& folder, const json& config) {
  const int64_t size = config["image_size"], channels = config["num_channels"];
  at::manual_seed(2);
  std::vector<int64_t> shape = {24, size, size};
  if (channels == 3) shape.push_back(3);
  const absl::Status s = tensorfile::WriteSafetensors(
      folder / "images.safetensors",
      {{"images", at::randint(256, shape, at::kByte)},
       {"labels", at::arange(24).remainder(2)}});
  ASSERT_TRUE(s.ok()) << s;
}

json PlainJob(const std::string& task) {
  json job = {{"model", "model"},
              {"task", task},
              {"classification", {{"ignore_mismatched_sizes", true}}},
              {"training",
               {{"max_steps", kSteps},
                {"per_device_train_batch_size", 4},
                {"learning_rate", 1e-3},
                {"weight_decay", 0.01},
                {"max_length", 48},
                {"eval_steps", 3},
                {"save_steps", 100}}}};
  std::string data = "texts.jsonl";
  if (task == "SEQ_CLS") {
    data = "classes.csv";
    job["training"]["max_length"] = 32;
  }
  if (task == "IMAGE_CLS") data = "images.safetensors";
  if (task == "CAUSAL_LM") job.erase("classification");
  job["dataset"] = {{"train", data}, {"eval", data}};
  return job;
}

json ModelConfig(const Configuration& configuration) {
  const fs::path path =
      testing_support::Golden(configuration.family, "model") / "config.json";
  json config = json::parse(*base::ReadFile(path));
  if (config.contains("vocab_size")) config["vocab_size"] = 128;
  for (const char* decided_by_data : {"id2label", "label2id", "problem_type"}) {
    config.erase(decided_by_data);
  }
  if (!configuration.model.empty()) {
    config.merge_patch(json::parse(configuration.model));
  }
  return config;
}

absl::Status Train(const fs::path& folder, const json& job,
                   train::Observer& observer) {
  auto spec = spec::ParseTrainSpec(job.dump(), "job.json");
  if (!spec.ok()) return spec.status();
  train::RunContext context;
  context.out_dir = folder / "out";
  context.cache_dir = folder;
  return train::Run(spec::ResolvePaths(*spec, folder.string()), context,
                    observer)
      .status();
}

Recording Record(const std::string& task, const Configuration& configuration,
                 const std::string& device) {
  const fs::path folder =
      testing_support::FreshFolder("ops_" + device + configuration.name);
  const json config = ModelConfig(configuration);
  WriteModel(folder / "model", config);
  WriteTexts(folder);
  WriteClasses(folder);
  if (task == "IMAGE_CLS") WriteImages(folder, config);
  json job = PlainJob(task);
  if (!configuration.job.empty()) {
    job.merge_patch(json::parse(configuration.job));
  }
  job["device"] = device;
  Recording recording;
  recording.max_length = job["training"]["max_length"];
  Recorder recorder;
  for (const bool resumed : {false, true}) {
    PartObserver observer(&recorder);
    observer.resumed = resumed;
    const absl::Status s = Train(folder, job, observer);
    EXPECT_TRUE(s.ok()) << configuration.name << ": " << s;
    observer.Close("end");
    recording.losses.insert(recording.losses.end(), observer.losses.begin(),
                            observer.losses.end());
  }
  recording.parts = recorder.parts();
  recording.missing = recorder.missing();
  recording.faults = recorder.faults();
  return recording;
}

}  // namespace

std::vector<const RecordedPart*> Recording::named(
    const std::string& name) const {
  std::vector<const RecordedPart*> found;
  for (const RecordedPart& part : parts) {
    if (part.name == name) found.push_back(&part);
  }
  return found;
}

const Recording& RecordingOf(const std::string& task,
                             const Configuration& configuration,
                             const std::string& device) {
  static auto* kept = new std::map<std::string, Recording>;
  const std::string key = device + configuration.name;
  const auto it = kept->find(key);
  if (it != kept->end()) return it->second;
  return (*kept)[key] = Record(task, configuration, device);
}

}  // namespace mpsd::ops
