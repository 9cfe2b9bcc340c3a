// SPDX-License-Identifier: Apache-2.0

#include <functional>
#include <stdexcept>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "core/base/sha256.h"
#include "core/train/classification.h"
#include "core/train/data_reader.h"
#include "core/train/fingerprint.h"
#include "core/train/task_pipeline.h"
#include "tests/core/idle_device.h"
#include "tests/core/job_folder.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"
#include "tests/core/train/train_jobs.h"

namespace mpsd::train {
namespace {

// A task whose data are there when the test says so.
class SlowPipeline : public LanguageModelling {
 public:
  SlowPipeline(const spec::TrainSpec& spec, absl::StatusOr<TaskData> data)
      : LanguageModelling(spec), data_(std::move(data)) {}

  absl::StatusOr<TaskData> LoadData(const std::string& folder,
                                    spec::ModelConfig& config,
                                    Observer& observer) override {
    thread = std::this_thread::get_id();
    observer.OnStage(folder + ", layers", config.num_hidden_layers);
    started.Notify();
    resume.WaitForNotification();
    observer.OnStage("tokenizing", 0.25);
    observer.OnStage("tokenizing", 0.5);
    observer.OnWarning("slow");
    observer.OnStage("tokenizing", 0.75);
    said_all.Notify();
    end.WaitForNotification();
    if (throws) throw std::runtime_error("thrown");
    return std::move(data_);
  }

  // Lets it report, and end.
  void Continue() {
    resume.Notify();
    end.Notify();
  }

  absl::Notification started, resume, said_all, end;
  bool throws = false;
  std::thread::id thread;

 private:
  absl::StatusOr<TaskData> data_;
};

class Listener : public RecordingObserver {
 public:
  void OnStage(const std::string& stage, double fraction) override {
    RecordingObserver::OnStage(stage, fraction);
    Hear(absl::StrCat(stage, " ", fraction));
  }
  std::vector<std::string> said;
  bool threads_agree = true;

 private:
  void TellWarning(const std::string& text) override {
    Hear("warning " + text);
  }
  void Hear(const std::string& text) {
    said.push_back(text);
    threads_agree &= std::this_thread::get_id() == thread_;
  }
  const std::thread::id thread_ = std::this_thread::get_id();
};

class DataReaderTest : public testing::Test {
 protected:
  DataReaderTest() { config_.num_hidden_layers = 3; }

  spec::TrainSpec spec_;
  spec::ModelConfig config_;
  Listener observer_;
};

TEST_F(DataReaderTest, ReadsNextToTheCallerAndReportsOnItsThread) {
  TaskData data;
  data.train = std::make_unique<Batches>(
      std::vector<data::Batch>{MakeBatch({4}, 4), MakeBatch({3}, 4)});
  SlowPipeline pipeline(spec_, std::move(data));
  DataReader reader(pipeline, observer_, "folder", config_);
  EXPECT_FALSE(reader.done());
  pipeline.started.WaitForNotification();
  EXPECT_TRUE(observer_.stages.empty());
  reader.Report();
  EXPECT_THAT(observer_.stages, ElementsAre("folder, layers"));
  // A Get that waits reports from time to time: it returns once all
  // has been reported.
  pipeline.resume.Notify();
  pipeline.said_all.WaitForNotification();
  pipeline.end.Notify();
  auto read = reader.Get().value();
  EXPECT_EQ(read.train->size(), 2);
  EXPECT_TRUE(reader.done());
  EXPECT_NE(pipeline.thread, std::this_thread::get_id());
  // The latest of a stage's progress, and all in the order of the calls.
  EXPECT_THAT(observer_.said, ElementsAre("folder, layers 3", "tokenizing 0.5",
                                          "warning slow", "tokenizing 0.75"));
  EXPECT_TRUE(observer_.threads_agree);
}

TEST_F(DataReaderTest, GivesErrorsAndWhatWasThrown) {
  {
    SlowPipeline pipeline(spec_, absl::InvalidArgumentError("line 3"));
    pipeline.Continue();
    DataReader reader(pipeline, observer_, "folder", config_);
    EXPECT_EQ(reader.Get().status(), absl::InvalidArgumentError("line 3"));
  }
  SlowPipeline pipeline(spec_, TaskData());
  pipeline.throws = true;
  pipeline.Continue();
  DataReader reader(pipeline, observer_, "folder", config_);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROW(reader.Get().IgnoreError(), std::runtime_error);
  }
}

// Before a step is done, and by name.
TEST(TextDataTest, BadJobsAreRefused) {
  struct Case {
    std::function<void(TextJob&)> spoil;
    const char* message;
  };
  const Case cases[] = {
      {[](TextJob& j) { j.Write("eval.csv", "text,label\nx,maybe\n"); },
       "eval.csv:2: "},
      {[](TextJob& j) {
         j.job["training"]["metric_for_best_model"] = "pearson";
       },
       "there are loss, accuracy, f1"},
      {[](TextJob& j) {
         j.job["task"] = "CAUSAL_LM";
         j.job["dataset"] = {{"train", "train.csv"}};
         j.job["training"].erase("eval_steps");
       },
       "a model of type \"bert\" is for SEQ_CLS"}};
  for (const Case& c : cases) {
    TextJob job("text_data_refused");
    c.spoil(job);
    RecordingObserver observer;
    EXPECT_THAT(job.Train("out", observer),
                Fails(absl::StatusCode::kInvalidArgument, c.message));
    EXPECT_TRUE(observer.steps.empty());
  }
}

TEST(TextDataTest, TextsAreCutAtTheModelsPositions) {
  TextJob job("text_data_long");
  job.Write("train.csv", absl::StrCat("text,label\n", std::string(500, 'a'),
                                      ",neg\nshort,pos\n"));
  job.job["training"]["max_steps"] = 1;
  RecordingObserver observer;
  ASSERT_THAT(job.Train("out", observer), IsOk());
  EXPECT_THAT(observer.stages,
              testing::Contains(HasSubstr("1 rows cut to 64 tokens")));
  EXPECT_THAT(
      observer.warnings(),
      testing::Contains("training data: 1 of 2 rows cut to max_length 64"));
}

TEST(TextDataTest, AWarningIsReportedAndKept) {
  TextJob job("text_data_warning");
  job.Write("train.csv", "text,label\nx,pos\ny,pos\n");
  job.job["dataset"] = {{"train", "train.csv"}};
  job.job["training"]["max_steps"] = 1;
  job.job["training"].erase("eval_steps");
  RecordingObserver observer;
  ASSERT_THAT(job.Train("out", observer), IsOk());
  EXPECT_THAT(observer.warnings(),
              testing::Contains(HasSubstr("every row has the label")));
  EXPECT_THAT(observer.stages,
              testing::Not(testing::Contains(HasSubstr("every row"))));
  EXPECT_EQ(job.Json("out/run.json")["warnings"], json(observer.warnings()));
}

TEST(TextDataTest, PredictionsNeedNoLabels) {
  TextJob job("text_data_predict");
  job.Write("predict.csv", "text\nrow number 3 is fine\n");
  job.job["dataset"]["predict"] = "predict.csv";
  ASSERT_THAT(job.Train("out"), IsOk());
  EXPECT_EQ(job.Bytes("out/predictions.tsv"), "index\tprediction\n0\tpos\n");
}

// Images that are bright above or below, and a tiny ViT from scratch.
class ImageJob : public ClassJob {
 public:
  explicit ImageJob(const std::string& name) : ClassJob(name) {
    Write("vit/config.json", json{{"model_type", "vit"},
                                  {"hidden_size", 32},
                                  {"intermediate_size", 64},
                                  {"num_hidden_layers", 2},
                                  {"num_attention_heads", 4},
                                  {"image_size", 16},
                                  {"patch_size", 4},
                                  {"num_channels", 1}}
                                 .dump());
    WriteImages("train.safetensors", 48, 1);
    WriteImages("eval.safetensors", 16, 2);
    job = {{"model", "vit"},
           {"task", "IMAGE_CLS"},
           {"fine_tune_type", "full"},
           {"from_scratch", true},
           {"dataset",
            {{"train", "train.safetensors"}, {"eval", "eval.safetensors"}}},
           {"augmentation", {{"crop_scale_min", 0.8}}},
           {"training",
            {{"max_steps", 30},
             {"per_device_train_batch_size", 8},
             {"learning_rate", 2e-3},
             {"save_steps", 10}}},
           {"device", "cpu"}};
  }

  void WriteImages(const std::string& name, int64_t count, uint64_t seed) {
    at::Generator generator = at::detail::createCPUGenerator(seed);
    at::Tensor images = at::rand({count, 16, 16}, generator, at::kFloat) * 100;
    const at::Tensor labels = at::arange(count).remainder(2);
    for (int64_t i = 0; i < count; ++i) {
      images[i].narrow(0, i % 2 == 0 ? 0 : 8, 8).add_(150);
    }
    ASSERT_THAT(tensorfile::WriteSafetensors(
                    path() / name,
                    {{"images", images.to(at::kByte)}, {"labels", labels}}),
                IsOk());
  }
};

TEST(ImageDataTest, ASplitIsTakenAndWhatDoesNotFitIsSaid) {
  ImageJob job("image_split");
  job.job["dataset"].erase("eval");
  job.job["dataset"]["validation_split"] = 0.25;
  job.job["dataset"]["image_column"] = "picture";
  job.job["dataset"]["label_column"] = "kind";
  job.job["training"]["max_steps"] = 1;
  RecordingObserver observer;
  ASSERT_TRUE(job.Train("out", observer).ok());
  EXPECT_THAT(
      observer.warnings(),
      testing::IsSupersetOf(
          {HasSubstr("dataset.image_column has no effect: image folders"),
           HasSubstr("dataset.label_column has no effect: image folders")}));
  EXPECT_EQ(job.Json("out/run.json")["train"]["rows"], 36);
  EXPECT_EQ(job.Json("out/run.json")["eval"]["rows"], 12);
  job.job["dataset"]["train"] = "vit/config.json";
  EXPECT_THAT(job.Train("bad"), Says("config.json"));
}

TEST(ImageDataTest, AVisionTransformerLearnsFromScratch) {
  ImageJob job("image_run");
  job.job["dataset"]["predict"] = "eval.safetensors";
  auto result = job.Train("out").value();
  EXPECT_EQ(result.metrics.at(0).first, "accuracy");
  EXPECT_GE(result.metrics.at(0).second, 0.9);
  const json config = job.Json("out/model/config.json");
  EXPECT_EQ(config["architectures"][0], "ViTForImageClassification");
  EXPECT_EQ(config["id2label"], json({{"0", "0"}, {"1", "1"}}));
  // From scratch it was absent; inference needs it.
  EXPECT_EQ(job.Json("out/model/preprocessor_config.json")["size"]["height"],
            16);
  auto weights = *tensorfile::SafetensorsFile::Open(
      job.path() / "out/model/model.safetensors");
  EXPECT_TRUE(weights->entries().contains(
      "vit.encoder.layer.0.attention.attention.query.weight"));
  EXPECT_THAT(job.Bytes("out/predictions.tsv"), HasSubstr("\n15\t"));
}

TEST(ImageDataTest, AugmentationResumesBitForBit) {
  ImageJob job("image_resume");
  ASSERT_TRUE(job.Train("whole").ok());
  RecordingObserver stopped;
  stopped.stop_after = 7;
  ASSERT_TRUE(job.Train("parts", stopped).ok());
  ASSERT_TRUE(job.Train("parts").ok());
  EXPECT_EQ(job.Bytes("parts/model/model.safetensors"),
            job.Bytes("whole/model/model.safetensors"));
}

TEST(ImageDataTest, LoraAndHeadStartFromAModel) {
  ImageJob job("image_lora");
  ASSERT_TRUE(job.Train("full").ok());
  job.job["model"] = "full/model";
  job.job["from_scratch"] = false;
  job.job["fine_tune_type"] = "lora";
  RecordingObserver lora, head;
  ASSERT_THAT(job.Train("lora", lora), IsOk());
  const json config = job.Json("lora/adapter/adapter_config.json");
  EXPECT_TRUE(config["task_type"].is_null());  // PEFT has no task for images
  EXPECT_EQ(config["target_modules"], json({"q_proj", "v_proj"}));
  job.job["fine_tune_type"] = "head";
  ASSERT_TRUE(job.Train("head", head).ok());
  EXPECT_NEAR(lora.evals[0].eval_loss, head.evals[0].eval_loss, 1e-6);
}

constexpr int64_t kNo = base::kIgnoreIndex;

data::Batch TwoRows() {
  data::Batch batch;
  batch.rows = 2;
  batch.length = 4;
  batch.input_ids = {5, 6, 7, 8, 9, 10, 0, 0};
  batch.labels = {kNo, 6, kNo, 8, kNo, 10, kNo, kNo};
  batch.position_ids = {0, 1, 2, 3, 0, 1, 0, 0};
  batch.segment_ids = {0, 0, 0, 0, 0, 0, -1, -1};
  batch.label_tokens = 3;
  return batch;
}

const device::Device& Cpu() {
  static const auto* device = device::OpenCpu()->release();
  return *device;
}

// The host's memory under the name of MPS.
class CpuAsMps : public IdleDevice {
 public:
  const device::Traits& traits() const override {
    return backend::TraitsOf(backend::Choice::kMps);
  }
};

BatchInputs InputsOf(const data::Batch& batch,
                     const device::Device& device = Cpu()) {
  return LanguageInputs({&batch, 1}, device).batches[0];
}

// How many rows a selection of so many labels has.
int64_t SizeFor(int64_t labels, const device::Device& device) {
  data::Batch batch;
  batch.rows = 1;
  batch.length = labels + 1;
  batch.input_ids.assign(batch.length, 1);
  batch.labels.assign(batch.length, 1);
  batch.labels[0] = kNo;
  const BatchInputs inputs = InputsOf(batch, device);
  EXPECT_EQ(inputs.labels.count, labels);
  return inputs.labels.rows.size(0);
}

TEST(InputsTest, TheSelectionIsPaddedToFewSizes) {
  for (const auto& [labels, size] : {std::pair<int64_t, int64_t>{1, 16},
                                     {16, 16},
                                     {17, 32},
                                     {33, 64},
                                     {65, 128},
                                     {129, 192},
                                     {1000, 1024},
                                     {1025, 1088}}) {
    EXPECT_EQ(SizeFor(labels, Cpu()), size) << labels;
  }
  for (const auto& [labels, size] : {std::pair<int64_t, int64_t>{1, 16},
                                     {17, 32},
                                     {33, 64},
                                     {65, 128},
                                     {129, 192},
                                     {193, 256},
                                     {1025, 1536},
                                     {30'000, 32'766},
                                     {32'766, 32'766}}) {
    EXPECT_EQ(SizeFor(labels, CpuAsMps()), size) << labels;
  }
  data::Batch batch = TwoRows();
  const BatchInputs inputs = InputsOf(batch);
  EXPECT_EQ((inputs.labels.targets == base::kIgnoreIndex).sum().item<int64_t>(),
            16 - 3);
}

TEST(InputsTest, WhatIsLargeGoesInSeveralUploads) {
  data::Batch image;
  image.rows = 1;
  image.pixels = at::empty({kUploadBytes / 4 / 2 + 1});  // fp32
  const std::vector<data::Batch> images(3, image);
  EXPECT_EQ(FirstUpload(images).size(), 1u);
  const std::vector<data::Batch> texts(1000, TwoRows());
  EXPECT_EQ(FirstUpload(texts).size(), 1000u);
  EXPECT_TRUE(FirstUpload({}).empty());
}

using json = nlohmann::ordered_json;
using spec::TrainSpec;

RunInputs Inputs() {
  return {{{"config.json", "c0"}, {"model.safetensors", "w0"}},
          {{"adapter_model.safetensors", "a0"}},
          "t0",
          "e0",
          "",
          "",
          "cpu"};
}

absl::Status Check(const TrainSpec& before, const TrainSpec& after) {
  return CheckFingerprint(MakeFingerprint(before, Inputs()),
                          MakeFingerprint(after, Inputs()));
}

TEST(FingerprintTest, AFieldIsHeldWhereItIsNotTheDefault) {
  TrainSpec spec;
  spec.name = "a name";
  spec.training.learning_rate = 1e-3;
  spec.training.gradient_accumulation_steps = 4;
  spec.training.logging_steps = 7;
  EXPECT_EQ(nlohmann::json::parse(MakeFingerprint(spec, Inputs())),
            nlohmann::json::parse(R"({"version": 1, "values": {
                "training.learning_rate": 0.001,
                "training.per_device_train_batch_size * )"
                                  R"(training.gradient_accumulation_steps": 32,
                "model/config.json": "c0", "model/model.safetensors": "w0",
                "adapter/adapter_model.safetensors": "a0",
                "data.train": "t0", "data.eval": "e0", "device": "cpu"}})"));
}

// As a later release, with a field more, and its predecessor find each other's.
TEST(FingerprintTest, AFieldThatIsAbsentHasItsDefault) {
  const std::string now = MakeFingerprint({}, Inputs());
  json other = json::parse(now);
  other["values"]["training.seed"] = 42;  // written out
  EXPECT_TRUE(CheckFingerprint(other.dump(), now).ok());
  EXPECT_TRUE(CheckFingerprint(now, other.dump()).ok());
  other["values"]["training.neftune_noise_alpha"] = 5;
  EXPECT_THAT(CheckFingerprint(other.dump(), now),
              Says("training.neftune_noise_alpha is null, the "
                   "checkpoint's is 5"));
}

TEST(FingerprintTest, WhatMayChangeMayChange) {
  const std::function<void(TrainSpec&)> changes[] = {
      [](TrainSpec& s) { s.name = "other"; },
      [](TrainSpec& s) { s.model = "/moved"; },
      [](TrainSpec& s) { s.model_id = "me/tiny"; },
      [](TrainSpec& s) { s.adapter = "/moved"; },
      [](TrainSpec& s) { s.dataset.train = {"/moved"}; },
      [](TrainSpec& s) { s.dataset.eval = {"/moved"}; },
      [](TrainSpec& s) { s.dataset.predict = {"more"}; },
      [](TrainSpec& s) { s.dataset.max_predict_samples = 3; },
      [](TrainSpec& s) { s.device = spec::DeviceChoice::kCpu; },
      [](TrainSpec& s) { s.allow_cpu_fallback = true; },
      [](TrainSpec& s) { s.lora.lora_dropout = 0; },
      [](TrainSpec& s) { s.training.num_train_epochs = 9; },
      [](TrainSpec& s) { s.training.max_steps = 9; },
      [](TrainSpec& s) { s.training.per_device_eval_batch_size = 1; },
      [](TrainSpec& s) {
        s.training.per_device_train_batch_size = 2;
        s.training.gradient_accumulation_steps = 4;
      },
      [](TrainSpec& s) { s.training.padding_free = true; },
      [](TrainSpec& s) { s.training.auto_find_batch_size = true; },
      [](TrainSpec& s) { s.training.gradient_checkpointing = true; },
      [](TrainSpec& s) {
        s.training.recompute_granularity = spec::Recompute::kSelective;
      },
      [](TrainSpec& s) { s.training.eval_steps = 9; },
      [](TrainSpec& s) { s.training.save_steps = 9; },
      [](TrainSpec& s) { s.training.save_total_limit = 9; },
      [](TrainSpec& s) { s.training.logging_steps = 9; },
      [](TrainSpec& s) { s.training.load_best_model_at_end = true; },
      [](TrainSpec& s) { s.training.early_stopping_patience = 9; },
      [](TrainSpec& s) { s.training.early_stopping_threshold = 9; },
  };
  for (size_t i = 0; i < std::size(changes); ++i) {
    TrainSpec after;
    changes[i](after);
    const absl::Status s = Check({}, after);
    EXPECT_TRUE(s.ok()) << i << " " << s;
  }
}

TEST(FingerprintTest, TokensDecideWhereBothHaveThem) {
  RunInputs with = Inputs();
  with.train_tokens = "k0";
  const std::string now = MakeFingerprint({}, with);
  const std::string before = MakeFingerprint({}, Inputs());
  EXPECT_TRUE(CheckFingerprint(before, now).ok());
  with.model["tokenizer.json"] = with.train = "x";
  EXPECT_TRUE(CheckFingerprint(now, MakeFingerprint({}, with)).ok());
  EXPECT_THAT(
      CheckFingerprint(before, MakeFingerprint({}, with)),
      Says(AllOf(HasSubstr("data.train"), HasSubstr("tokenizer.json"))));
  with.train_tokens = "k1";
  EXPECT_THAT(CheckFingerprint(now, MakeFingerprint({}, with)),
              Says("tokens.train is sha256 k1, the checkpoint's is sha256 k0"));
}

TEST(FingerprintTest, DecidedLabelsCountHoweverTheyWereGiven) {
  RunInputs inputs = Inputs();
  inputs.problem_type = "single_label_classification";
  inputs.label_names = {"2", "10"};
  TrainSpec spec;
  spec.classification.label_names = inputs.label_names;
  const std::string now = MakeFingerprint(spec, inputs);
  EXPECT_TRUE(CheckFingerprint(MakeFingerprint({}, inputs), now).ok());
  // An earlier release's labels are in run.json.
  const std::string before = MakeFingerprint({}, Inputs());
  constexpr char kOfRun[] = R"({"problem_type":"single_label_classification",)"
                            R"("names":["2","10"]})";
  EXPECT_TRUE(CheckFingerprint(before, now, kOfRun).ok());
  EXPECT_THAT(CheckFingerprint(before, now),
              Says("classification.label_names is"));
  inputs.label_names = {"10", "2"};
  const std::string turned = MakeFingerprint({}, inputs);
  for (const std::string& saved : {before, now}) {
    EXPECT_THAT(CheckFingerprint(saved, turned, kOfRun),
                Fails(absl::StatusCode::kFailedPrecondition,
                      "set classification.label_names and problem_type to " +
                          std::string(kOfRun)));
  }
}

TEST(FingerprintTest, NamesOfOneMetricAreOneJob) {
  TrainSpec spec;
  const auto with = [&](const char* metric) {
    spec.training.metric_for_best_model = metric;
    return MakeFingerprint(spec, {});
  };
  EXPECT_TRUE(CheckFingerprint(with("eval_loss"), with("")).ok());
  EXPECT_TRUE(CheckFingerprint(with(""), with("loss")).ok());
  EXPECT_TRUE(CheckFingerprint(with("f1"), with("eval_f1")).ok());
  EXPECT_FALSE(CheckFingerprint(with("f1"), with("")).ok());
}

TEST(FingerprintTest, WhatChangesTheMathematicsIsRefusedByName) {
  struct Change {
    std::function<void(TrainSpec&)> make;
    const char* says;
  };
  const Change changes[] = {
      {[](TrainSpec& s) { s.task = spec::Task::kSeqCls; },
       R"(task is "SEQ_CLS", the checkpoint's is "CAUSAL_LM")"},
      {[](TrainSpec& s) { s.lora.r = 4; },
       "lora.r is 4, the checkpoint's is 8"},
      {[](TrainSpec& s) { s.lora.lora_dropout = 0.1; },
       "lora.lora_dropout is 0.1, the checkpoint's is 0.0"},
      {[](TrainSpec& s) { s.training.learning_rate = 1; },
       "training.learning_rate is 1.0, the checkpoint's is 5e-05"},
      {[](TrainSpec& s) { s.training.gradient_accumulation_steps = 2; },
       "gradient_accumulation_steps is 16, the checkpoint's is 8"},
      {[](TrainSpec& s) { s.training.lr_scheduler_type = "cosine"; },
       "training.lr_scheduler_type"},
      {[](TrainSpec& s) { s.training.warmup_steps = 1; },
       "training.warmup_steps"},
      {[](TrainSpec& s) { s.training.weight_decay = 1; },
       "training.weight_decay"},
      {[](TrainSpec& s) { s.training.max_length = 7; }, "training.max_length"},
      {[](TrainSpec& s) { s.training.packing = true; }, "training.packing"},
      {[](TrainSpec& s) { s.training.seed = 7; }, "training.seed"},
      {[](TrainSpec& s) { s.training.bf16 = true; }, "training.bf16"},
      {[](TrainSpec& s) { s.training.assistant_only_loss = true; },
       "training.assistant_only_loss is true, the checkpoint's is null"},
      {[](TrainSpec& s) { s.training.metric_for_best_model = "f1"; },
       "training.metric_for_best_model"},
      {[](TrainSpec& s) { s.quantization_config.load_in_4bit = true; },
       "quantization_config.load_in_4bit"},
      {[](TrainSpec& s) {
         s.classification.class_weights = {1, 2};
       },
       "classification.class_weights is [1.0,2.0]"},
      {[](TrainSpec& s) { s.dataset.text_columns = {"a"}; },
       "dataset.text_columns"},
      {[](TrainSpec& s) { s.gradients = spec::Gradients::kAutograd; },
       R"(gradients is "autograd")"},
  };
  for (const Change& change : changes) {
    TrainSpec after;
    change.make(after);
    for (const absl::Status& s : {Check({}, after), Check(after, {})}) {
      EXPECT_TRUE(absl::IsFailedPrecondition(s)) << s;
    }
    EXPECT_THAT(Check({}, after),
                Says(AllOf(HasSubstr("of another job: "),
                           HasSubstr(change.says), Not(HasSubstr(";")))));
  }
  // Of patterns that match a module the first one counts.
  TrainSpec one, other;
  one.lora.rank_pattern = {{"q", 2}, {"q_proj", 4}};
  other.lora.rank_pattern = {{"q_proj", 4}, {"q", 2}};
  EXPECT_FALSE(Check(one, other).ok());
  EXPECT_TRUE(Check(one, one).ok());
}

TEST(FingerprintTest, OtherContentIsNamedByItsFile) {
  const auto differs = [](const std::function<void(RunInputs&)>& change) {
    RunInputs inputs = Inputs();
    change(inputs);
    return std::string(CheckFingerprint(MakeFingerprint({}, Inputs()),
                                        MakeFingerprint({}, inputs))
                           .message());
  };
  EXPECT_THAT(differs([](auto& i) { i.model["model.safetensors"] = "w1"; }),
              HasSubstr("model/model.safetensors is sha256 w1, the "
                        "checkpoint's is sha256 w0"));
  EXPECT_THAT(differs([](auto& i) { i.model["chat_template.jinja"] = "x"; }),
              HasSubstr("model/chat_template.jinja is sha256 x, the "
                        "checkpoint's is not there"));
  EXPECT_THAT(differs([](auto& i) { i.adapter.clear(); }),
              HasSubstr("adapter/adapter_model.safetensors is not there"));
  EXPECT_THAT(differs([](auto& i) {
                i.train = "t1";
                i.eval = "";
              }),
              AllOf(HasSubstr("data.eval is not there"), HasSubstr("; "),
                    HasSubstr("data.train is sha256 t1")));
  EXPECT_THAT(differs([](auto& i) { i.device = "cuda"; }),
              HasSubstr(R"(device is "cuda", the checkpoint's is "cpu")"));
}

TEST(FingerprintTest, ANewerReleasesIsSaidToBeOne) {
  const std::string now = MakeFingerprint({}, Inputs());
  EXPECT_THAT(CheckFingerprint(R"({"version": 2, "values": {}})", now),
              Fails(absl::StatusCode::kFailedPrecondition, "of a newer mpsd"));
  for (const char* broken :
       {"", "{}", "[1]", R"({"version": 1})", R"({"version": 1, "values": 3})",
        R"({"version": "1", "values": {}})"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckFingerprint(broken, now)))
        << broken;
  }
}

const std::atomic<bool> kContinue{false}, kStop{true};

TEST(HashModelTest, DigestsModelFilesAndRemembersThem) {
  const auto model = FreshFolder("hash_model");
  const auto cache = FreshFolder("hash_cache") / "digests.json";
  std::ofstream(model / "config.json") << "{}";
  std::ofstream(model / "model.safetensors") << "weights";
  std::ofstream(model / "README.md") << "not part of it";
  auto digests = *HashModel(model, cache, kContinue);
  EXPECT_EQ(digests.size(), 2u);
  EXPECT_EQ(digests["model.safetensors"], base::Sha256Hex("weights"));
  // A remembered digest is used for as long as the file is untouched…
  std::string text = *base::ReadFile(cache);
  const size_t at = text.find(digests["config.json"]);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 64, std::string(64, 'e'));
  std::ofstream(cache) << text;
  EXPECT_EQ((*HashModel(model, cache, kContinue))["config.json"],
            std::string(64, 'e'));
  // … and no longer.
  std::ofstream(model / "config.json") << "{\"changed\": 1}";
  EXPECT_EQ((*HashModel(model, cache, kContinue))["config.json"],
            base::Sha256Hex("{\"changed\": 1}"));
}

TEST(HashModelTest, ABrokenCacheIsAnEmptyOneAndAStopIsHeard) {
  const auto model = FreshFolder("hash_model_2");
  std::ofstream(model / "config.json") << "{}";
  const auto cache = FreshFolder("hash_cache_2") / "digests.json";
  std::ofstream(cache) << "[1,";
  EXPECT_EQ((*HashModel(model, cache, kContinue))["config.json"],
            base::Sha256Hex("{}"));
  EXPECT_FALSE(HashModel(model / "none", cache, kContinue).ok());
  const auto unused = FreshFolder("stop_cache") / "digests.json";
  EXPECT_TRUE(absl::IsCancelled(HashModel(model, unused, kStop).status()));
  EXPECT_FALSE(fs::exists(unused));
}

TEST(ModelDigestsTest, AreThoseOfTheFolder) {
  const fs::path model = FreshFolder("ahead_model");
  const fs::path cache = FreshFolder("ahead_cache") / "digests.json";
  // More than is hashed at a time.
  const std::string weights(20 << 20, 'w');
  std::ofstream(model / "model.safetensors") << weights;
  std::ofstream(model / "config.json") << "{}";
  std::ofstream(model / "README.md") << "no part of it";
  for (int i = 0; i < 2; ++i) {  // computed, then known
    ModelDigests ahead(model, cache);
    const auto digests = ahead.Get().value();
    const Digests expected = {{"config.json", base::Sha256Hex("{}")},
                              {"model.safetensors", base::Sha256Hex(weights)}};
    EXPECT_EQ(digests, expected);
    EXPECT_EQ(*ahead.Get(), expected);  // as often as one likes
  }
  EXPECT_FALSE(ModelDigests(model / "none", "").Get().ok());
}

TEST(ModelDigestsTest, AreOptional) {
  const fs::path model = FreshFolder("unasked");
  std::ofstream(model / "model.safetensors") << std::string(64 << 20, 'w');
  const fs::path cache = FreshFolder("unasked_cache") / "digests.json";
  ModelDigests ahead(model, cache);
}

}  // namespace
}  // namespace mpsd::train
