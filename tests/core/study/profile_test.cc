// SPDX-License-Identifier: Apache-2.0
#include "core/study/profile.h"

#include <ATen/Parallel.h>
#include <ATen/record_function.h>

#include <chrono>
#include <cstring>
#include <new>
#include <set>
#include <string_view>
#include <thread>

#include "core/device/block_mark.h"
#include "tests/core/job_folder.h"
#include "tests/core/status_matchers.h"
#include "tests/core/study/study_job.h"
#include "tests/core/train/train_jobs.h"

namespace mpsd::study {
namespace {

constexpr int64_t kMilli = 1'000'000;  // ns

// The facts of a sound job on a device of its own: 4 steps of warm-up, 10 plain
// ones of 0.1 s, and 20 under the profiler of 0.11 s; four layers that are
// alike.
ProfileFacts SoundFacts() {
  ProfileFacts facts;
  facts.device = "mps";
  facts.gradients = "explicit";
  facts.device_is_apart = true;
  const auto add = [&](StepKind kind, double seconds) {
    report::Progress progress;
    progress.step = static_cast<int64_t>(facts.steps.size()) + 1;
    progress.seconds = seconds;
    progress.epoch = static_cast<double>(progress.step) / 30;
    progress.data_wait_seconds = 0.001;
    progress.padded_tokens = 1000;
    progress.memory.current_allocated_bytes = 1000;
    progress.memory.peak_allocated_bytes = 1500;
    progress.device_utilization_ratio = 0.9;
    facts.steps.push_back({kind, progress});
  };
  add(StepKind::kWarmUp, 2);
  for (int i = 0; i < 3; ++i) add(StepKind::kWarmUp, 0.2);
  for (int i = 0; i < 10; ++i) {
    add(StepKind::kPlain, 0.1);
    add(StepKind::kProfiled, 0.11);
    add(StepKind::kProfiled, 0.11);
  }
  profile::Tally& tally = facts.tally;
  tally.steps = 20;
  tally.step_ns = tally.steps * 110 * kMilli;
  tally.operators["aten::mm"] = {2000, tally.steps * 80 * kMilli, 0};
  tally.operators["aten::mul"] = {4000, tally.steps * 10 * kMilli, 0};
  using profile::Phase;
  tally.blocks[{"attention", Phase::kForward}] = {80, tally.steps * 30 * kMilli,
                                                  tally.steps * 28 * kMilli, 0};
  tally.blocks[{"attention", Phase::kBackward}] = {
      80, tally.steps * 60 * kMilli, tally.steps * 55 * kMilli, 0};
  tally.blocks[{"read back", Phase::kForward}] = {20, tally.steps * 15 * kMilli,
                                                  tally.steps * 15 * kMilli, 0};
  tally.blocks[{"step", Phase::kForward}] = {20, tally.steps * 5 * kMilli, 0,
                                             0};
  for (int64_t layer = 0; layer < 4; ++layer) {
    profile::LayerCost& cost = tally.layers[layer];
    cost.ns[0] = tally.steps * 7 * kMilli;
    cost.ns[1] = tally.steps * 15 * kMilli;
  }
  tally.gaps = {40, tally.steps * 5 * kMilli, 3 * kMilli, "aten::mm", "mlp"};
  facts.data_seconds = {0.01, 0.012, 0.011};
  facts.forward_seconds = {0.03};
  return facts;
}

using runbook::Verdict;

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
// planted layer would be slow next to them.
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
    auto spec = spec::ParseTrainSpec(job.dump(), "job.json").value();
    out_ = folder / "out";
    fs::create_directories(out_);
    train::RunContext context;
    context.out_dir = out_;
    context.cache_dir = folder;
    const device::WarningCapture warnings(
        [&](const std::string& text) { observer.OnWarning(text); });
    context.warnings = &warnings;
    const auto thresholds = *runbook::Thresholds::FromJson(
        options.value("thresholds", json::object()));
    return Profile({options, thresholds,
                    spec::ResolvePaths(std::move(spec), folder.string()),
                    context, observer});
  }
  absl::StatusOr<Found> Run(const JobFolder& folder, train::Observer& observer,
                            json options = Short()) {
    return Run(json::parse(*base::ReadFile(folder.Write())), folder.path(),
               observer, std::move(options));
  }

  // Profiles until the finding `name` has the verdict, five times at most: a
  // busy machine may stop within a layer or a wait for data, and then
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

TEST_F(ProfileTest, ReportsWhereTheTimeOfAStepGoes) {
  JobFolder folder("profile");
  FaultyObserver observer;
  const auto found = Run(folder, observer).value();
  const json& result = found.result;
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
  // The two clocks begin and end a little apart, and a busy machine may stop
  // there. A sum over all steps would be seven times the mean.
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
  // And leaves a trace, and nothing else.
  const json& trace = result["trace"];
  EXPECT_EQ(trace["file"], "trace.json.gz");
  EXPECT_EQ(trace["steps"], 2);
  EXPECT_EQ(trace["size_bytes"], fs::file_size(out_ / "trace.json.gz"));
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(out_)) {
    files.insert(entry.path().filename());
  }
  EXPECT_EQ(files, std::set<std::string>{"trace.json.gz"});
}

// The control of the planted faults below.
TEST_F(ProfileTest, ASoundJobWaitsForNothing) {
  JobFolder folder("profile_sound");
  const auto found =
      *RunUntil("profile.data", Verdict::kPass,
                json::parse(*base::ReadFile(folder.Write())), folder.path());
  for (const char* name :
       {"profile.blocking", "profile.fallback", "profile.data"}) {
    EXPECT_EQ(Finding(found, name).verdict, Verdict::kPass)
        << name << ": " << Finding(found, name).found;
  }
  EXPECT_TRUE(found.result["cpu_fallback_ops"].empty());
  ASSERT_EQ(found.result["waits"].size(), 1u) << found.result["waits"];
  EXPECT_EQ(found.result["waits"][0]["own"], true);
  EXPECT_EQ(found.result["waits"][0]["calls"], 1);
}

TEST_F(ProfileTest, APlantedBlockingCopyIsFound) {
  JobFolder folder("profile_blocking");
  // Each step has two micro-batches.
  folder.WriteRows("train.jsonl", 12);
  folder.training()["gradient_accumulation_steps"] = 2;
  FaultyObserver observer([] { at::ones({1}).item(); });
  const auto found = Run(folder, observer).value();
  const runbook::Finding& finding = Finding(found, "profile.blocking");
  EXPECT_EQ(finding.verdict, Verdict::kWarn);
  EXPECT_THAT(finding.found, HasSubstr("aten::_local_scalar_dense, 1"));
  EXPECT_EQ(finding.value, 1);
}

TEST_F(ProfileTest, APlantedFallbackIsFoundByName) {
  JobFolder folder("profile_fallback");
  FaultyObserver observer([] {
    TORCH_WARN(
        "The operator 'aten::frobnicate' is not currently supported on "
        "the MPS backend and will fall back to run on the CPU.");
  });
  const auto found = Run(folder, observer).value();
  const runbook::Finding& finding = Finding(found, "profile.fallback");
  EXPECT_EQ(finding.verdict, Verdict::kWarn);
  EXPECT_THAT(finding.found, HasSubstr("aten::frobnicate"));
  EXPECT_GE(found.result["cpu_fallback_ops"]["aten::frobnicate"], 7);
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
  const auto found = Run(BertJob(text), text.path(), observer, Short()).value();
  EXPECT_EQ(found.result["gradients"], "autograd");
  ASSERT_EQ(found.result["layers"].size(), 4u);
  for (const json& layer : found.result["layers"]) {
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

TEST_F(ProfileTest, APlantedSlowLoaderIsFoundAndAFastOneIsNot) {
  for (const auto& [size, verdict] :
       {std::pair{2400, Verdict::kWarn}, {32, Verdict::kPass}}) {
    const fs::path folder = FreshFolder("profile_loader");
    const auto found =
        *RunUntil("profile.data", verdict, ImageJob(folder, size), folder);
    const runbook::Finding& finding = Finding(found, "profile.data");
    EXPECT_EQ(finding.verdict, verdict) << finding.found;
  }
}

TEST_F(ProfileTest, AStopEndsItWithoutATrace) {
  for (const int64_t step : {1, 5, 12}) {
    JobFolder folder("profile_stop");
    FaultyObserver observer;
    observer.stop_after = step;
    EXPECT_TRUE(absl::IsCancelled(Run(folder, observer).status())) << step;
    EXPECT_EQ(observer.steps.size(), static_cast<size_t>(step));
    EXPECT_TRUE(fs::is_empty(out_)) << step;
  }
  JobFolder folder("profile_stop_late");
  FaultyObserver observer;
  observer.stop_at_stage = "timing the loader and the forward alone";
  EXPECT_TRUE(absl::IsCancelled(Run(folder, observer).status()));
}

TEST_F(ProfileTest, OptionsOutOfTheirBoundsAndJobsThatCannotTrainAreRefused) {
  JobFolder folder("profile_options");
  FaultyObserver observer;
  EXPECT_TRUE(
      absl::IsInvalidArgument(Run(folder, observer, {{"steps", 0}}).status()));
  EXPECT_TRUE(observer.devices.empty());
  fs::remove(folder.path() / "train.jsonl");
  EXPECT_TRUE(absl::IsNotFound(Run(folder, observer).status()));
}

using train::StopRequest;

// What train::Loop does: asks between steps, and once within a step.
int64_t Train(ProfiledSteps& steps, int64_t most = 100) {
  for (int64_t step = 1; step <= most; ++step) {
    if (steps.stop_request() != StopRequest::kNone) return step - 1;
    const profile::BlockMark mark("mpsd::step");
    at::ones({8}).add_(1);
    if (steps.stop_request() != StopRequest::kNone) return step - 1;
    report::Progress progress;
    progress.step = step;
    progress.seconds = 1;
    steps.OnStep(progress);
  }
  return most;
}

TEST(ProfiledStepsTest, AMissingTraceHasAReasonAndWarningsContinue) {
  RecordingObserver observer;
  ProfiledSteps steps({1, 1}, observer);
  steps.Begin();
  Train(steps);
  const auto folder = FreshFolder("profiled_steps_none");
  std::ofstream(folder / "file") << "no folder";
  ProfileFacts facts;
  steps.Finish(folder / "file", facts);
  EXPECT_FALSE(facts.trace.has_value());
  ASSERT_EQ(facts.unknown.size(), 1u);
  EXPECT_EQ(facts.unknown[0].find("there is no trace: "), 0u);
  steps.OnWarning("hot");
  EXPECT_EQ(observer.warnings(), std::vector<std::string>{"hot"});
}

// The kinds of a plan's steps: w, p, or x under the profiler; "|" ends a
// session.
std::string Drawn(ProfilePlan plan) {
  std::string drawn;
  while (const auto kind = plan.Next()) {
    plan.Taken();
    drawn += *kind == StepKind::kWarmUp  ? 'w'
             : *kind == StepKind::kPlain ? 'p'
                                         : 'x';
    if (*kind == StepKind::kProfiled && plan.EndsSession()) drawn += '|';
  }
  return drawn;
}

int64_t Steps(const std::string& drawn) {
  return static_cast<int64_t>(drawn.size()) -
         std::count(drawn.begin(), drawn.end(), '|');
}

TEST(ProfilePlanTest, PlainStepsComeBeforeEachSessionAndTheTotalIsKnown) {
  EXPECT_EQ(Drawn({3, 7}), "wwwppxxxxx|ppxx|");
  EXPECT_EQ(Drawn({1, 1}), "wppx|");
  EXPECT_EQ(Drawn({1, 5}), "wppxxxxx|");
  for (const int64_t profiled : {1, 4, 5, 6, 10, 11, 50}) {
    ProfilePlan plan(10, profiled);
    const int64_t total = Steps(Drawn(plan));
    for (int64_t i = 0; i < total; ++i) {
      EXPECT_EQ(plan.total(), total) << profiled << " at " << i;
      plan.Taken();
    }
    EXPECT_EQ(plan.total(), total);
    EXPECT_EQ(plan.Next(), std::nullopt);
  }
}

TEST(ProfilePlanTest, ManyEventsMakeShortSessions) {
  ProfilePlan plan(1, 20);
  for (int i = 0; i < 8; ++i) plan.Taken();
  ASSERT_TRUE(plan.EndsSession());
  plan.Note(5 * ProfilePlan::kSessionEvents / 2, 5);
  EXPECT_EQ(Drawn(plan), "ppxx|ppxx|ppxx|ppxx|ppxx|ppxx|ppxx|ppx|");
  EXPECT_EQ(plan.total(), 8 + Steps(Drawn(plan)));
  plan.Note(100 * ProfilePlan::kSessionEvents, 1);
  EXPECT_THAT(Drawn(plan), testing::StartsWith("ppx|ppx|"));
}

using runbook::Finding;

TEST(ProfileFactsTest, ASteadyStepIsPlainWorkPlusTheWait) {
  ProfileFacts facts = SoundFacts();
  EXPECT_NEAR(facts.StepSeconds(), 0.1, 1e-9);
  EXPECT_NEAR(facts.DataWaitSeconds(), 0.001, 1e-9);
  EXPECT_NEAR(facts.Overhead(), 0.109 / 0.099 - 1, 1e-9);
  // The plain steps find data that were made while the profiler's events were
  // worked up.
  for (ProfiledStep& step : facts.steps) {
    if (step.kind != StepKind::kProfiled) continue;
    step.progress.data_wait_seconds = 0.05;
    step.progress.seconds += 0.049;
  }
  EXPECT_NEAR(facts.StepSeconds(), 0.099 + 0.05, 1e-9);
}

TEST(ProfileFactsTest, MemoryGrowsFromTheFirstSteadyStepsToTheLast) {
  ProfileFacts facts = SoundFacts();
  EXPECT_EQ(facts.MemoryGrowth(), 0);
  int64_t bytes = 1000;
  for (ProfiledStep& step : facts.steps) {
    step.progress.memory.current_allocated_bytes = bytes += 100;
  }
  EXPECT_GT(*facts.MemoryGrowth(), 0.5);
  // The process' memory has the profiler's own.
  for (ProfiledStep& step : facts.steps) {
    step.progress.memory.current_allocated_bytes.reset();
  }
  EXPECT_EQ(facts.MemoryGrowth(), std::nullopt);
  for (ProfiledStep& step : facts.steps) {
    step.progress.memory.footprint_bytes = bytes += 1000;
  }
  EXPECT_EQ(facts.MemoryGrowth(), std::nullopt);
  facts = SoundFacts();
  facts.steps.resize(10);
  EXPECT_EQ(facts.MemoryGrowth(), std::nullopt);
}

// The names of the findings that warn.
std::vector<std::string> Warnings(const ProfileFacts& facts,
                                  const runbook::Thresholds& thresholds = {}) {
  std::vector<std::string> names;
  for (const Finding& finding : FindingsOf(facts, thresholds)) {
    EXPECT_FALSE(finding.found.empty()) << finding.name;
    EXPECT_EQ(finding.advice.empty(), finding.verdict != Verdict::kWarn);
    if (finding.verdict == Verdict::kWarn) names.push_back(finding.name);
  }
  return names;
}

Finding Get(const ProfileFacts& facts, const std::string& name) {
  for (const Finding& finding : FindingsOf(facts, {})) {
    if (finding.name == name) return finding;
  }
  ADD_FAILURE() << name;
  return {};
}

using Names = std::vector<std::string>;

// The control of all that follow.
TEST(ProfileFindingsTest, ASoundJobHasNone) {
  EXPECT_EQ(Warnings(SoundFacts()), Names{});
  EXPECT_EQ(Warnings({}), Names{});
  const std::vector<Finding> findings = FindingsOf(SoundFacts(), {});
  ASSERT_EQ(findings.size(), 3u);
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.verdict, Verdict::kPass) << finding.name;
  }
}

TEST(ProfileFindingsTest, AStepThatWaitsForDataStarves) {
  ProfileFacts facts = SoundFacts();
  for (ProfiledStep& step : facts.steps) {
    step.progress.data_wait_seconds = 0.05;
    step.progress.seconds += 0.049;
  }
  // A fast loader that is waited for: the machine is busy with other work.
  EXPECT_EQ(Warnings(facts), Names{});
  EXPECT_THAT(Get(facts, "profile.data").found, HasSubstr("other work"));
  facts.data_seconds = {0.15};
  EXPECT_EQ(Warnings(facts), Names{"profile.data"});
  EXPECT_THAT(Get(facts, "profile.data").found, HasSubstr("33.6 %"));
}

TEST(ProfileResultTest, TimesAreThoseOfAStep) {
  const json result = ProfileResult(SoundFacts());
  EXPECT_EQ(result["device"], "mps");
  const json& steps = result["steps"];
  EXPECT_EQ(steps["warm_up"], 4);
  EXPECT_EQ(steps["plain"], 10);
  EXPECT_EQ(steps["profiled"], 20);
  EXPECT_EQ(steps["first_seconds"], 2);
  EXPECT_EQ(steps["warm_up_seconds"], 0.2);
  EXPECT_NEAR(steps["steady_seconds"], 0.1, 1e-9);
  EXPECT_NEAR(steps["data_wait_share"], 0.01, 1e-9);
  EXPECT_EQ(steps["first_epoch_seconds"], 0.1);
  EXPECT_EQ(steps["later_epochs_seconds"], 0.1);
  const json& mm = result["operators"][0];
  EXPECT_EQ(mm["name"], "aten::mm");
  EXPECT_EQ(mm["calls"], 100);
  EXPECT_NEAR(mm["self_seconds"], 0.08, 1e-9);
  EXPECT_NEAR(mm["share"], 80.0 / 90, 1e-9);
  EXPECT_FALSE(mm.contains("device_seconds"));
  const json& block = result["blocks"][0];
  EXPECT_EQ(block["name"], "attention");
  EXPECT_EQ(block["phase"], "backward");
  EXPECT_NEAR(block["seconds"], 0.06, 1e-9);
  EXPECT_NEAR(block["operator_seconds"], 0.055, 1e-9);
  EXPECT_EQ(result["layers"].size(), 4u);
  EXPECT_NEAR(result["layers"][3]["backward_seconds"], 0.015, 1e-9);
  EXPECT_NEAR(result["gaps"]["share"], 5.0 / 110, 1e-9);
  EXPECT_EQ(result["captures"][0],
            (json{{"name", "data"}, {"steps", 3}, {"seconds", 0.011}}));
  EXPECT_EQ(result["memory"]["peak_allocated_bytes"], 1500);
  EXPECT_FALSE(result["memory"].contains("peak_driver_bytes"));
  EXPECT_FALSE(result.contains("trace"));
}

TEST(ProfileResultTest, TheDevicesTimeOrdersOperatorsIfItIsKnown) {
  ProfileFacts facts = SoundFacts();
  facts.tally.device_reports_times = true;
  facts.tally.device_busy_ns = 3;
  facts.tally.device_window_ns = 4;
  facts.tally.operators["aten::mul"].device_ns = 20 * 30 * kMilli;
  const json result = ProfileResult(facts);
  EXPECT_EQ(result["operators"][0]["name"], "aten::mul");
  EXPECT_NEAR(result["operators"][0]["device_seconds"], 0.03, 1e-9);
  EXPECT_EQ(result["operators"][0]["share"], 1);
  EXPECT_EQ(result["gaps"]["device_idle_ratio"], 0.25);
}

TEST(ProfileResultTest, ListsHaveBoundsAndNoStepsAreNoReasonToDivideByZero) {
  ProfileFacts facts = SoundFacts();
  for (int i = 0; i < 1000; ++i) {
    const std::string name = "aten::op" + std::to_string(i);
    facts.tally.operators[name] = {1, 1, 0};
    facts.tally.layers[i] = {};
    facts.tally.waits[name] = {1, 1, {{"mlp", 1}}};
    facts.steps.back().progress.cpu_fallback_ops[name] = 1;
  }
  const json result = ProfileResult(facts);
  EXPECT_EQ(result["operators"].size(), 50u);
  EXPECT_EQ(result["layers"].size(), 512u);
  EXPECT_LE(result["waits"].size(), 21u);
  EXPECT_EQ(result["cpu_fallback_ops"].size(), 100u);
  const std::string text = ProfileResult({}).dump();
  EXPECT_EQ(text.find("null"), std::string::npos) << text;
}

using wire::JobKind;

// Keeps `bytes` more after every step, as a leak does.
struct Leaking : RecordingObserver {
  void OnStep(const report::Progress& step) override {
    RecordingObserver::OnStep(step);
    kept.push_back(std::make_unique<char[]>(bytes));
    std::memset(kept.back().get(), 1, bytes);
  }
  size_t bytes = 16 << 20;
  std::vector<std::unique_ptr<char[]>> kept;
};

TEST(SmokeTest, ACleanRunPasses) {
  StudyJob job("smoke_clean");
  RecordingObserver observer;
  ASSERT_THAT(job.Study(JobKind::kSmoke, json::object(), observer), IsOk());
  const json smoke = job.Result()["smoke"];
  EXPECT_EQ(smoke["device"], "cpu");
  EXPECT_EQ(smoke["rows"], 8);
  EXPECT_EQ(smoke["steps_per_epoch"], 4);
  ASSERT_EQ(smoke["epochs"].size(), 10u);
  EXPECT_EQ(smoke["epochs"][9]["epoch"], 10);
  EXPECT_GT(smoke["epochs"][9]["footprint_bytes"].get<int64_t>(), 0);
  EXPECT_GT(smoke["epochs"][9]["loss"].get<double>(), 0);
  EXPECT_EQ(smoke["memory_from"], "footprint");
  EXPECT_LT(smoke["memory_growth"].get<double>(), 0.26);
  EXPECT_EQ(job.Finding("smoke.memory_growth")["verdict"], "VERDICT_PASS")
      << job.Finding("smoke.memory_growth");
  EXPECT_EQ(job.Finding("smoke.driver_overhead")["verdict"],
            "VERDICT_UNSPECIFIED")
      << "the CPU has no such counter";
  const json environment = smoke["environment"];
  EXPECT_EQ(environment["torch_version"], "2.11.0");
  EXPECT_EQ(environment["train_sha256"].get<std::string>().size(), 64u);
  EXPECT_TRUE(environment["model_sha256"].contains("config.json"));
  EXPECT_EQ(environment["spec_json"].get<std::string>().find("train.jsonl"),
            std::string::npos)
      << "no paths";
  ASSERT_EQ(observer.steps.size(), 40u);
  EXPECT_EQ(observer.steps.back().total_steps, 40);
}

TEST(SmokeTest, ALeakFails) {
  StudyJob job("smoke_leak");
  Leaking observer;
  ASSERT_THAT(job.Study(JobKind::kSmoke, json::object(), observer), IsOk());
  EXPECT_EQ(job.Result()["verdict"], "VERDICT_FAIL");
  EXPECT_EQ(job.Finding("smoke.memory_growth")["verdict"], "VERDICT_FAIL")
      << job.Finding("smoke.memory_growth");
  EXPECT_EQ(job.Finding("smoke.memory_slope")["verdict"], "VERDICT_WARN");
  EXPECT_GE(job.Result()["smoke"]["slope_bytes_per_epoch"].get<double>(),
            3.5 * static_cast<double>(observer.bytes));
}

TEST(SmokeTest, ThresholdsAreTheRequests) {
  StudyJob job("smoke_thresholds");
  RecordingObserver observer;
  ASSERT_THAT(
      job.Study(JobKind::kSmoke,
                {{"rows", 4}, {"thresholds", {{"smoke.epochs", 3}}}}, observer),
      IsOk());
  EXPECT_EQ(job.Result()["smoke"]["epochs"].size(), 3u);
  EXPECT_EQ(job.Result()["smoke"]["rows"], 4);
  for (const json& wrong : {json{{"rows", 1'000'001}}, json{{"rows", -1}},
                            json{{"thresholds", {{"smoke.epochs", 1}}}},
                            json{{"thresholds", {{"smoke.epochs", 1001}}}}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        job.Study(JobKind::kSmoke, wrong, observer).status()))
        << wrong;
  }
}

TEST(SmokeTest, OutOfMemoryFails) {
  struct Full : RecordingObserver {
    void OnStep(const report::Progress& step) override {
      if (step.step == 6) throw std::bad_alloc();
    }
  };
  StudyJob job("smoke_full");
  Full observer;
  ASSERT_THAT(job.Study(JobKind::kSmoke, json::object(), observer), IsOk());
  EXPECT_EQ(job.Finding("smoke.out_of_memory")["verdict"], "VERDICT_FAIL");
  EXPECT_EQ(job.Result()["smoke"]["epochs"].size(), 1u);
}

// What a handoff to another machine depends on is the same for the same job,
// and says where the data are not.
TEST(SmokeTest, TheEnvironmentNamesDataAndModel) {
  StudyJob job("smoke_environment");
  const json quick = {{"rows", 4}, {"thresholds", {{"smoke.epochs", 2}}}};
  RecordingObserver observer;
  ASSERT_TRUE(job.Study(JobKind::kSmoke, quick, observer).ok());
  const json first = job.Result()["smoke"]["environment"];
  EXPECT_EQ(first["model_sha256"].count("config.json"), 1u) << first;
  ASSERT_TRUE(job.Study(JobKind::kSmoke, quick, observer).ok());
  EXPECT_EQ(job.Result()["smoke"]["environment"], first);
  job.WriteRows("train.jsonl", 9);
  ASSERT_TRUE(job.Study(JobKind::kSmoke, quick, observer).ok());
  const json other = job.Result()["smoke"]["environment"];
  EXPECT_NE(other["train_sha256"], first["train_sha256"]);
  EXPECT_EQ(other["model_sha256"], first["model_sha256"]);
}

}  // namespace
}  // namespace mpsd::study
