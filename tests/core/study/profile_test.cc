// SPDX-License-Identifier: Apache-2.0
#include "core/study/profile.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "core/device/warnings.h"
#include "core/tensorfile/safetensors.h"
#include "tests/core/train/class_job.h"

namespace mpsd::study {
namespace {

namespace fs = std::filesystem;

using nlohmann::json;
using runbook::Verdict;
using testing_support::JobFolder;
using testing_support::RecordingObserver;

// Does something within a run, wherever the run asks for a stop: between two
// micro-batches, and between two steps.
class FaultyObserver : public RecordingObserver {
 public:
  explicit FaultyObserver(std::function<void()> fault = [] {})
      : fault_(std::move(fault)) {}
  train::StopRequest stop_request() override {
    fault_();
    return RecordingObserver::stop_request();
  }

 private:
  const std::function<void()> fault_;
};

// The thresholds are far from what a busy machine makes of a short step.
json Short() {
  return {{"steps", 7},
          {"warm_up_steps", 2},
          {"thresholds", {{"profile.data_share", 0.5}}}};
}

// Steps on one thread of the CPU. With more, a busy machine slows each operator
// that waits for the others' threads, and neither a planted loader nor a
// planted layer would be slow beside them.
class OneThread {
 public:
  OneThread() { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before_); }

 private:
  const int before_ = at::get_num_threads();
};

class ProfileTest : public testing::Test {
 protected:
  // Profiles `job`, whose relative paths are below `folder`.
  absl::StatusOr<Found> Run(const json& job, const fs::path& folder,
                            train::Observer& observer, json options) {
    auto spec = spec::ParseTrainSpec(job.dump(), "job.json");
    if (!spec.ok()) return spec.status();
    out_ = folder / "out";
    fs::create_directories(out_);
    train::RunContext context;
    context.out_dir = out_;
    context.cache_dir = folder;
    const device::WarningCapture warnings(
        [&](const std::string& text) { observer.OnWarning(text); });
    context.warnings = &warnings;
    auto thresholds = runbook::Thresholds::FromJson(
        options.value("thresholds", json::object()));
    if (!thresholds.ok()) return thresholds.status();
    return Profile({options, *thresholds,
                    spec::ResolvePaths(*std::move(spec), folder.string()),
                    context, observer});
  }
  absl::StatusOr<Found> Run(const JobFolder& folder, train::Observer& observer,
                            json options = Short()) {
    return Run(json::parse(*base::ReadFile(folder.Write())), folder.path(),
               observer, std::move(options));
  }

  // Profiles until the finding `name` has the verdict, five times at most: a
  // busy machine may stand still within a layer or a wait for data, and then
  // measures rightly what the job does not have. It does so by chance; what is
  // planted is there each time.
  absl::StatusOr<Found> RunUntil(const std::string& name, Verdict verdict,
                                 const json& job, const fs::path& folder) {
    for (int attempt = 1;; ++attempt) {
      FaultyObserver observer;
      auto found = Run(job, folder, observer, Short());
      if (!found.ok() || attempt == 5 ||
          Finding(*found, name).verdict == verdict) {
        return found;
      }
    }
  }

  static const runbook::Finding& Finding(const Found& found,
                                         const std::string& name) {
    for (const runbook::Finding& finding : found.findings) {
      if (finding.name == name) return finding;
    }
    ADD_FAILURE() << "no finding " << name;
    return found.findings.front();
  }

  fs::path out_;
  const OneThread one_thread_;
};

TEST_F(ProfileTest, TellsWhereTheTimeOfAStepGoes) {
  JobFolder folder("profile");
  FaultyObserver observer;
  const auto found = Run(folder, observer);
  ASSERT_TRUE(found.ok()) << found.status();
  const json& result = found->result;
  EXPECT_EQ(result["device"], "cpu");
  EXPECT_EQ(result["gradients"], "explicit");
  EXPECT_EQ(result["steps"]["warm_up"], 2);
  EXPECT_EQ(result["steps"]["plain"], 4);  // before 5 and 2
  EXPECT_EQ(result["steps"]["profiled"], 7);
  EXPECT_EQ(observer.steps.size(), 13u);
  EXPECT_EQ(observer.steps.back().total_steps, 13);
  EXPECT_TRUE(observer.evals.empty());
  EXPECT_TRUE(observer.checkpoints.empty());

  double share = 0, seconds = 0;
  std::set<std::string> names;
  for (const json& block : result["blocks"]) {
    share += block["share"].get<double>();
    seconds += block["seconds"].get<double>();
    names.insert(block["name"]);
  }
  EXPECT_NEAR(share, 1, 1e-9);
  // By the run's own clock, which stops before the step is reported.
  double mean = 0;
  for (const size_t step : {4, 5, 6, 7, 8, 11, 12}) {
    mean += observer.steps[step].seconds / 7;
  }
  // The two clocks begin and end a little apart, where a busy machine may stand
  // still. A sum over all steps would be seven times the mean.
  EXPECT_GT(seconds, mean / 4);
  EXPECT_LT(seconds, mean * 4);
  for (const char* name : {"attention", "mlp", "norm", "head", "optimizer",
                           "data", "upload", "read back", "adapters", "step"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  EXPECT_EQ(result["layers"].size(), 2u);
  for (const json& layer : result["layers"]) {
    EXPECT_GT(layer["forward_seconds"].get<double>(), 0);
    EXPECT_GT(layer["backward_seconds"].get<double>(), 0);
  }
  EXPECT_LE(result["operators"].size(), 50u);
  EXPECT_GT(result["operators"][0]["self_seconds"].get<double>(), 0);
  std::set<std::string> captures;
  for (const json& capture : result["captures"]) {
    captures.insert(capture["name"]);
    EXPECT_GT(capture["seconds"].get<double>(), 0) << capture;
  }
  EXPECT_EQ(captures, (std::set<std::string>{"data", "forward", "step"}));
  EXPECT_GT(result["memory"]["peak_footprint_bytes"].get<int64_t>(), 0);
}

// The control of the planted faults below.
TEST_F(ProfileTest, ASoundJobWaitsForNothing) {
  JobFolder folder("profile_sound");
  const auto found =
      RunUntil("profile.data", Verdict::kPass,
               json::parse(*base::ReadFile(folder.Write())), folder.path());
  ASSERT_TRUE(found.ok()) << found.status();
  for (const char* name :
       {"profile.blocking", "profile.fallback", "profile.data"}) {
    EXPECT_EQ(Finding(*found, name).verdict, Verdict::kPass)
        << name << ": " << Finding(*found, name).found;
  }
  EXPECT_TRUE(found->result["cpu_fallback_ops"].empty());
  ASSERT_EQ(found->result["waits"].size(), 1u) << found->result["waits"];
  EXPECT_EQ(found->result["waits"][0]["own"], true);
  EXPECT_EQ(found->result["waits"][0]["calls"], 1);
}

TEST_F(ProfileTest, LeavesATraceAndNothingElse) {
  JobFolder folder("profile_trace");
  FaultyObserver observer;
  const auto found = Run(folder, observer);
  ASSERT_TRUE(found.ok()) << found.status();
  const json& trace = found->result["trace"];
  EXPECT_EQ(trace["file"], "trace.json.gz");
  EXPECT_EQ(trace["steps"], 2);
  EXPECT_EQ(trace["size_bytes"], fs::file_size(out_ / "trace.json.gz"));
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(out_)) {
    files.insert(entry.path().filename());
  }
  EXPECT_EQ(files, std::set<std::string>{"trace.json.gz"});
}

TEST_F(ProfileTest, APlantedBlockingCopyIsFound) {
  JobFolder folder("profile_blocking");
  // Each step has two micro-batches.
  folder.WriteRows("train.jsonl", 12);
  folder.training()["gradient_accumulation_steps"] = 2;
  FaultyObserver observer([] { at::ones({1}).item(); });
  const auto found = Run(folder, observer);
  ASSERT_TRUE(found.ok()) << found.status();
  const runbook::Finding& finding = Finding(*found, "profile.blocking");
  EXPECT_EQ(finding.verdict, Verdict::kWarn);
  EXPECT_THAT(finding.found,
              testing::HasSubstr("aten::_local_scalar_dense, 1"));
  EXPECT_EQ(finding.value, 1);
}

TEST_F(ProfileTest, APlantedFallbackIsFoundByName) {
  JobFolder folder("profile_fallback");
  FaultyObserver observer([] {
    TORCH_WARN(
        "The operator 'aten::frobnicate' is not currently supported on "
        "the MPS backend and will fall back to run on the CPU.");
  });
  const auto found = Run(folder, observer);
  ASSERT_TRUE(found.ok()) << found.status();
  const runbook::Finding& finding = Finding(*found, "profile.fallback");
  EXPECT_EQ(finding.verdict, Verdict::kWarn);
  EXPECT_THAT(finding.found, testing::HasSubstr("aten::frobnicate"));
  EXPECT_GE(found->result["cpu_fallback_ops"]["aten::frobnicate"], 7);
}

// Sleeps once within each pass of layer 2's forward.
class SlowLayer {
 public:
  SlowLayer() {
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& f)
                                       -> std::unique_ptr<at::ObserverContext> {
          const std::string_view name = f.name();
          if (name == "mpsd::layer 2") inside_ = true;
          if (inside_ && name == "mpsd::attention") {
            inside_ = false;
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
          }
          return nullptr;
        }).scopes({at::RecordScope::USER_SCOPE}));
  }
  ~SlowLayer() { at::removeCallback(handle_); }

 private:
  static thread_local bool inside_;
  at::CallbackHandle handle_;
};
thread_local bool SlowLayer::inside_ = false;

// A BERT of four layers, by autograd.
json BertJob(const train::TextJob& text) {
  json config = json::parse(*base::ReadFile(text.path() / "bert/config.json"));
  config["num_hidden_layers"] = 4;
  text.Write("bert/config.json", config.dump());
  return text.job;
}

TEST_F(ProfileTest, APlantedSlowLayerIsFound) {
  train::TextJob text("profile_layer");
  const SlowLayer slow;
  FaultyObserver observer;
  const auto found = Run(BertJob(text), text.path(), observer, Short());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->result["gradients"], "autograd");
  ASSERT_EQ(found->result["layers"].size(), 4u);
  for (const json& layer : found->result["layers"]) {
    // A tiny layer's own time is far from what it sleeps.
    EXPECT_EQ(layer["forward_seconds"].get<double>() >= 0.2,
              layer["index"] == 2)
        << layer;
    // By autograd, too, the backward is known by layer.
    EXPECT_GT(layer["backward_seconds"].get<double>(), 0) << layer;
  }
}

// Images of `size` pixels a side, cut anew for each step, and a tiny ViT.
json ImageJob(const fs::path& folder, int64_t size) {
  fs::create_directories(folder / "vit");
  std::ofstream(folder / "vit/config.json")
      << json{{"model_type", "vit"},      {"hidden_size", 32},
              {"intermediate_size", 64},  {"num_hidden_layers", 2},
              {"num_attention_heads", 4}, {"image_size", 32},
              {"patch_size", 4},          {"num_channels", 1}};
  const int64_t count = 8;
  const absl::Status s = tensorfile::WriteSafetensors(
      folder / "train.safetensors",
      {{"images", at::randint(255, {count, size, size}).to(at::kByte)},
       {"labels", at::arange(count).remainder(2)}});
  EXPECT_TRUE(s.ok()) << s;
  return {{"model", "vit"},
          {"task", "IMAGE_CLS"},
          {"fine_tune_type", "full"},
          {"from_scratch", true},
          {"dataset", {{"train", "train.safetensors"}}},
          {"augmentation", {{"crop_scale_min", 0.8}}},
          {"training", {{"per_device_train_batch_size", 8}}},
          {"device", "cpu"}};
}

TEST_F(ProfileTest, APlantedSlowLoaderIsFound) {
  const fs::path folder = testing_support::FreshFolder("profile_loader");
  const auto found =
      RunUntil("profile.data", Verdict::kWarn, ImageJob(folder, 2400), folder);
  ASSERT_TRUE(found.ok()) << found.status();
  const runbook::Finding& finding = Finding(*found, "profile.data");
  EXPECT_EQ(finding.verdict, Verdict::kWarn) << finding.found;
}

TEST_F(ProfileTest, AFastLoaderIsNot) {
  const fs::path folder = testing_support::FreshFolder("profile_fast_loader");
  const auto found =
      RunUntil("profile.data", Verdict::kPass, ImageJob(folder, 32), folder);
  ASSERT_TRUE(found.ok()) << found.status();
  const runbook::Finding& finding = Finding(*found, "profile.data");
  EXPECT_EQ(finding.verdict, Verdict::kPass) << finding.found;
}

TEST_F(ProfileTest, AStopEndsItWithoutATrace) {
  for (const int64_t step : {1, 5, 12}) {
    JobFolder folder("profile_stop");
    FaultyObserver observer;
    observer.stop_after = step;
    const auto found = Run(folder, observer);
    EXPECT_EQ(found.status().code(), absl::StatusCode::kCancelled) << step;
    EXPECT_EQ(observer.steps.size(), static_cast<size_t>(step));
    EXPECT_TRUE(fs::is_empty(out_)) << step;
  }
}

TEST_F(ProfileTest, AStopWhileAPartIsTimedEndsItToo) {
  JobFolder folder("profile_stop_late");
  FaultyObserver observer;
  observer.stop_at_stage = "timing the loader and the forward alone";
  EXPECT_EQ(Run(folder, observer).status().code(),
            absl::StatusCode::kCancelled);
}

TEST_F(ProfileTest, OptionsOutOfTheirBoundsAreRefused) {
  JobFolder folder("profile_options");
  FaultyObserver observer;
  const auto found = Run(folder, observer, {{"steps", 0}});
  EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(observer.devices.empty());
}

TEST_F(ProfileTest, AJobThatCannotBeTrainedSaysWhy) {
  JobFolder folder("profile_broken");
  fs::remove(folder.path() / "train.jsonl");
  FaultyObserver observer;
  EXPECT_EQ(Run(folder, observer).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace mpsd::study
