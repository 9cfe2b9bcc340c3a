// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "core/ckpt/checkpoint.h"
#include "core/spec/targets.h"
#include "core/train/finish.h"
#include "core/train/stages.h"
#include "tests/core/job_folder.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"
#include "tests/core/train/train_jobs.h"

namespace mpsd::train {
namespace {

using spec::ProblemType;

metrics::Predictions Predicted(ProblemType problem, int64_t outputs,
                               std::vector<float> logits) {
  metrics::Predictions p;
  p.problem = problem;
  p.outputs = outputs;
  p.logits = std::move(logits);
  return p;
}

data::ClassLabels Named(ProblemType problem, std::vector<std::string> names) {
  data::ClassLabels class_labels;
  class_labels.problem = problem;
  class_labels.names = std::move(names);
  return class_labels;
}

std::string Name(int64_t row) { return row == 1 ? "cats/1.png" : ""; }

// The lines of predictions.jsonl; `tsv` gets the other file.
std::vector<json> Written(const metrics::Predictions& predictions,
                          const data::ClassLabels& class_labels,
                          std::string* tsv) {
  const auto folder = FreshFolder("results");
  EXPECT_THAT(WritePredictions(folder, predictions, class_labels, Name),
              IsOk());
  std::istringstream lines(*base::ReadFile(folder / "predictions.jsonl"));
  std::vector<json> rows;
  for (std::string line; std::getline(lines, line);) {
    rows.push_back(json::parse(line));
  }
  *tsv = *base::ReadFile(folder / "predictions.tsv");
  return rows;
}

TEST(WritePredictionsTest, ASingleLabelIsNamedWithItsSoftmax) {
  std::string tsv;
  const auto rows =
      Written(Predicted(ProblemType::kSingleLabel, 2, {0, 0, 1, -1}),
              Named(ProblemType::kSingleLabel, {"no", "yes"}), &tsv);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["index"], 0);
  EXPECT_FALSE(rows[0].contains("image"));
  EXPECT_EQ(rows[1]["image"], "cats/1.png");
  EXPECT_EQ(rows[0]["prediction"], "no");  // the first of equals
  EXPECT_DOUBLE_EQ(rows[0]["scores"]["yes"], 0.5);
  EXPECT_EQ(rows[1]["prediction"], "no");
  EXPECT_NEAR(rows[1]["scores"]["no"], 1 / (1 + std::exp(-2.0)), 1e-12);
  EXPECT_EQ(tsv, "index\tprediction\n0\tno\n1\tno\n");
  const auto large =
      Written(Predicted(ProblemType::kSingleLabel, 2, {1000, -1000}),
              Named(ProblemType::kSingleLabel, {"a", "b"}), &tsv);
  EXPECT_EQ(large[0]["scores"], json({{"a", 1.0}, {"b", 0.0}}));
}

TEST(WritePredictionsTest, ARegressionIsItsNumber) {
  std::string tsv;
  const auto rows = Written(Predicted(ProblemType::kRegression, 1, {2.5, -1}),
                            Named(ProblemType::kRegression, {"LABEL_0"}), &tsv);
  EXPECT_EQ(rows[0]["prediction"], 2.5);
  EXPECT_FALSE(rows[0].contains("scores"));
  EXPECT_EQ(tsv, "index\tprediction\n0\t2.5\n1\t-1.0\n");
}

TEST(WritePredictionsTest, ARowWithoutNumbersHasNoLabel) {
  const float nan = std::nanf("");
  EXPECT_THAT(
      WritePredictions(FreshFolder("results_nan"),
                       Predicted(ProblemType::kSingleLabel, 2, {0, 1, nan, 0}),
                       Named(ProblemType::kSingleLabel, {"no", "yes"}), Name),
      Fails(absl::StatusCode::kDataLoss,
            "outputs for row 1 (from 0), cats/1.png are not finite"));
}

TEST(WritePredictionsTest, SeveralLabelsAreThoseAboveAHalf) {
  std::string tsv;
  const auto rows =
      Written(Predicted(ProblemType::kMultiLabel, 3, {1, -1, 2, -1, -1, -1}),
              Named(ProblemType::kMultiLabel, {"a", "b", "c"}), &tsv);
  EXPECT_EQ(rows[0]["prediction"], json({"a", "c"}));
  EXPECT_EQ(rows[1]["prediction"], json::array());
  EXPECT_NEAR(rows[0]["scores"]["b"], 1 / (1 + std::exp(1.0)), 1e-12);
  EXPECT_EQ(tsv, "index\tprediction\n0\ta,c\n1\t\n");
}

TEST(ConfusionMatrixJsonTest, RowsAreTrueLabels) {
  auto p = Predicted(ProblemType::kSingleLabel, 2, {1, 0, 0, 1, 0, 1});
  p.truth = {0, 0, 1};
  const json matrix = json::parse(
      ConfusionMatrixJson(p, Named(ProblemType::kSingleLabel, {"n", "y"})));
  EXPECT_EQ(matrix["labels"], json({"n", "y"}));
  EXPECT_EQ(matrix["matrix"], json({{1, 1}, {0, 1}}));
}

// Of ImageNet-21k's labels it would be a gigabyte.
TEST(ConfusionMatrixJsonTest, TooManyLabelsAndARegressionHaveNone) {
  for (const int64_t count : {1000, 1001, 21'843}) {
    std::vector<std::string> names;
    for (int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
    auto p = Predicted(ProblemType::kSingleLabel, count,
                       std::vector<float>(static_cast<size_t>(count)));
    p.truth = {7};
    const std::string matrix =
        ConfusionMatrixJson(p, Named(ProblemType::kSingleLabel, names));
    EXPECT_EQ(matrix.empty(), count > 1000) << count;
    EXPECT_LT(matrix.size(), size_t{4} << 20) << "a message of the API";
  }
  EXPECT_EQ(ConfusionMatrixJson(Predicted(ProblemType::kRegression, 1, {1}),
                                Named(ProblemType::kRegression, {"LABEL_0"})),
            "");
}

BestModel Best(const std::string& metric,
               std::optional<bool> greater = std::nullopt,
               double threshold = 0) {
  spec::TrainingSpec training;
  training.metric_for_best_model = metric;
  training.greater_is_better = greater;
  training.early_stopping_threshold = threshold;
  return BestModel::Create(training, {"accuracy", "f1"}).value();
}

TEST(BestModelTest, TheLossIsTheDefaultAndShouldFall) {
  const BestModel best = Best("");
  EXPECT_EQ(best.metric(), "loss");
  EXPECT_TRUE(best.IsBetter(1, std::nullopt));
  EXPECT_TRUE(best.IsBetter(1, 2));
  EXPECT_FALSE(best.IsBetter(2, 2));
  EvalResult result;
  result.loss = 0.25;
  EXPECT_EQ(best.ValueOf(result), 0.25);
}

TEST(BestModelTest, AMetricRisesAndMayHaveEvalBeforeItsName) {
  const BestModel best = Best("eval_f1");
  EXPECT_EQ(best.metric(), "f1");
  EXPECT_TRUE(best.IsBetter(0.9, 0.8));
  EXPECT_FALSE(best.IsBetter(0.7, 0.8));
  EvalResult result;
  result.metrics = {{"accuracy", 0.5}, {"f1", 0.75}};
  EXPECT_EQ(best.ValueOf(result), 0.75);
  EXPECT_TRUE(Best("f1", false).IsBetter(0.1, 0.2));
}

// EarlyStoppingCallback: a gain must exceed the threshold, the best model need
// not.
TEST(BestModelTest, AGainExceedsTheThresholdAndIsANumber) {
  const BestModel best = Best("accuracy", std::nullopt, 0.1);
  EXPECT_TRUE(best.IsBetter(0.55, 0.5));
  EXPECT_FALSE(best.Gains(0.55, 0.5, false));
  EXPECT_TRUE(best.Gains(0.65, 0.5, false));
  EXPECT_TRUE(best.Gains(0.05, std::nullopt, false));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(Best("f1").IsBetter(nan, std::nullopt));
  EXPECT_FALSE(Best("f1").Gains(nan, 0.5, false));
  EXPECT_TRUE(Best("f1").Gains(nan, std::nullopt, true));
  EXPECT_FALSE(Best("f1").Gains(nan, std::nullopt, false));
}

TEST(BestModelTest, AnUnknownMetricIsRefusedWithThoseThereAre) {
  spec::TrainingSpec training;
  training.metric_for_best_model = "acuracy";
  EXPECT_THAT(BestModel::Create(training, {"accuracy", "f1"}),
              Fails(absl::StatusCode::kInvalidArgument,
                    "there are loss, accuracy, f1"));
}

// The model, the metrics and the confusion matrix are those of the best
// evaluation, in spite of all after it.
TEST(FinishTest, TheBestModelIsWhatIsLeft) {
  TextJob job("finish_best");
  job.job["training"]["eval_steps"] = 2;
  job.job["training"]["max_steps"] = 30;
  job.job["training"]["learning_rate"] = 3e-2;  // too much
  job.job["training"]["metric_for_best_model"] = "eval_accuracy";
  job.job["training"]["load_best_model_at_end"] = true;
  RecordingObserver observer;
  auto result = job.Train("out", observer).value();
  auto accuracy = [](const report::Evaluated& evaluated) {
    return evaluated.metrics[0].second;
  };
  const auto best = std::max_element(
      observer.evals.begin() + 1, observer.evals.end(),
      [&](const auto& a, const auto& b) { return accuracy(a) < accuracy(b); });
  for (const auto& evaluated : observer.evals) {
    // The last one that is marked.
    if (evaluated.step >= best->step) {
      EXPECT_EQ(evaluated.best, evaluated.step == best->step);
    }
  }
  EXPECT_FALSE(observer.evals[0].best);  // before training
  EXPECT_TRUE(observer.evals[1].best);
  EXPECT_EQ(result.metrics[0].second, accuracy(*best));
  EXPECT_EQ(*result.eval_loss_after, best->eval_loss);
  const json matrix = json::parse(result.confusion_matrix)["matrix"];
  const double right = matrix[0][0].get<double>() + matrix[1][1].get<double>();
  EXPECT_DOUBLE_EQ(right / 16, accuracy(*best));
  const auto step = job.Json("out/run.json")["result"]["best"]["step"];
  EXPECT_EQ(step, best->step);
  EXPECT_EQ(job.Bytes("out/model/model.safetensors"),
            job.Bytes("out/checkpoints/step-" + std::to_string(best->step) +
                      "/model.safetensors"));
}

// A best checkpoint that is gone or spoilt costs the best, not the run.
TEST(FinishTest, WithoutTheBestTheLastWeightsAreTheResult) {
  for (const bool spoilt : {false, true}) {
    TextJob job("finish_no_best");
    job.job["training"]["eval_steps"] = 2;
    job.job["training"]["save_steps"] = 2;
    job.job["training"]["max_steps"] = 30;
    job.job["training"]["learning_rate"] = 3e-2;  // too much
    job.job["training"]["load_best_model_at_end"] = true;
    // The last step's checkpoint is there when a finished run runs again.
    ASSERT_TRUE(job.Train("out").ok());
    const auto before = job.Json("out/run.json")["result"];
    const int64_t best = before["best"]["step"];
    ASSERT_LT(best, 30);
    EXPECT_EQ(before["result_step"], best);
    const auto folder = ckpt::CheckpointPath(job.path() / "out", best);
    if (spoilt) {
      std::fstream file(folder / "model.safetensors",
                        std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(-1, std::ios::end).put('\x01');
    } else {
      fs::remove_all(folder);
    }
    RecordingObserver observer;
    auto result = job.Train("out", observer).value();
    EXPECT_THAT(
        observer.warnings(),
        testing::ElementsAre(testing::AllOf(
            testing::HasSubstr("best checkpoint, step " + std::to_string(best)),
            testing::HasSubstr("that of the last step, 30"))));
    EXPECT_EQ(job.Json("out/run.json")["result"]["result_step"], 30);
    EXPECT_EQ(job.Bytes("out/model/model.safetensors"),
              job.Bytes("out/checkpoints/step-30/model.safetensors"));
    EXPECT_NE(result.confusion_matrix, "");
  }
}

TEST(FinishTest, AStopWhilePredictingIsAStop) {
  TextJob job("finish_stop");
  job.job["dataset"]["predict"] = "eval.csv";
  job.job["training"]["max_steps"] = 2;
  RecordingObserver observer;
  observer.stop_at_stage = "predicting";
  auto result = job.Train("out", observer).value();
  EXPECT_EQ(result.stopped, StopRequest::kPreempt);
  auto rest = job.Train("out").value();
  EXPECT_EQ(rest.stopped, StopRequest::kNone);
  EXPECT_FALSE(rest.confusion_matrix.empty());
}

class EvaluateTest : public LmParts {
 protected:
  absl::StatusOr<EvalResult> Evaluation(
      std::vector<data::Batch> batches,
      const std::function<bool(double)>& go_on = [](double) { return true; }) {
    const Batches source(std::move(batches));
    return Evaluate(subject(), data::EvalLoader(source, 1), go_on);
  }
};

TEST_F(EvaluateTest, EvaluationIsTheMeanOverAllTokens) {
  const data::Batch a = MakeBatch({9, 3}, 9), b = MakeBatch({4}, 9, 50);
  std::vector<double> asked;
  const auto both = Evaluation({a, b}, [&](double fraction) {
    asked.push_back(fraction);
    return true;
  });
  auto alone = [&](const data::Batch& batch) { return *Evaluation({batch}); };
  EXPECT_EQ(both->label_tokens, 13);
  EXPECT_NEAR(both->loss, (alone(a).loss * 10 + alone(b).loss * 3) / 13, 1e-6);
  EXPECT_THAT(asked, testing::ElementsAre(0, 0.5));
}

// More than are read back at a time, and one that has no target among them.
TEST_F(EvaluateTest, ManyBatchesAreTheSumOfEach) {
  std::vector<data::Batch> batches;
  double sum = 0;
  int64_t labels = 0;
  for (int64_t i = 0; i < 19; ++i) {
    batches.push_back(i == 7 ? MakeBatch({1}, 9)
                             : MakeBatch({3 + i % 5, 9}, 9, i));
    if (i == 7) continue;
    const auto alone = Evaluation({batches.back()});
    sum += alone->loss * alone->label_tokens;
    labels += alone->label_tokens;
  }
  const auto all = Evaluation(batches);
  EXPECT_EQ(all->label_tokens, labels);
  EXPECT_NEAR(all->loss, sum / labels, 1e-7);
}

TEST_F(EvaluateTest, CanBeStoppedAndALossThatIsNotFiniteIsAnError) {
  EXPECT_TRUE(absl::IsCancelled(
      Evaluation({MakeBatch({4}, 4)}, [](double) { return false; }).status()));
  adapter_->parameters().groups()[0].values.fill_(
      std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(absl::IsDataLoss(Evaluation({MakeBatch({4}, 4)}).status()));
}

TEST_F(EvaluateTest, ALanguageModelsMetricIsPerplexityWithoutDropout) {
  const auto result = Evaluation({MakeBatch({9, 3}, 9)});
  ASSERT_EQ(result->metrics.size(), 1u);
  EXPECT_EQ(result->metrics[0].first, "perplexity");
  EXPECT_DOUBLE_EQ(result->metrics[0].second, std::exp(result->loss));
  EXPECT_EQ(result->predictions.rows(), 0);
  auto loss = [&] { return Evaluation({MakeBatch({9, 3}, 9)})->loss; };
  EXPECT_EQ(loss(), loss());
}

absl::StatusOr<Described> DescribeJob(JobFolder& folder) {
  auto spec = *spec::ParseTrainSpec(folder.job().dump(), "job.json");
  RecordingObserver observer;
  return Describe(spec::ResolvePaths(std::move(spec), folder.path().string()),
                  observer);
}

// A device that this machine lacks does not matter.
TEST(Describe, NeedsNoDevice) {
  JobFolder folder("describe");
  folder.job()["device"] = "mps";
  const auto job = DescribeJob(folder).value();
  EXPECT_EQ(job.config.model_type, "llama");
  EXPECT_EQ(job.model_folder, Golden("smollm", "model").string());
  EXPECT_EQ(job.spec->lora, spec::EffectiveLora(job.spec->lora, job.config));
}

TEST(Describe, AnAdapterDecidesWhatIsTrainedAndMisfitsAreRefused) {
  JobFolder folder("describe_adapter");
  folder.job()["adapter"] = Golden("smollm", "adapter").string();
  folder.job().erase("lora");
  ASSERT_THAT(DescribeJob(folder), IsOk());
  folder.job()["lora"]["r"] = 77;
  EXPECT_THAT(DescribeJob(folder), Says("leave lora out"));
  folder.job().erase("adapter");
  folder.job()["lora"]["target_modules"] = {"q_porj"};
  EXPECT_THAT(DescribeJob(folder), Says("q_porj"));
  folder.job()["model"] = folder.path() / "none";
  EXPECT_TRUE(absl::IsNotFound(DescribeJob(folder).status()));
  fs::create_directories(folder.path() / "none");
  std::ofstream(folder.path() / "none" / "config.json") << "{";
  EXPECT_TRUE(absl::IsInvalidArgument(DescribeJob(folder).status()));
}

struct Listening : RecordingObserver {
  void TellWarning(const std::string& text) override {
    reported.push_back(text);
  }
  std::vector<std::string> reported;
};

TEST(ObserverTest, WarningsHaveBoundsAndSaySo) {
  Listening observer;
  const std::string longest(Observer::kLongestWarning, 'x');
  observer.OnWarning(longest + "y");
  observer.OnWarning(longest + "z");
  for (int i = 0; i < 1000; ++i) observer.OnWarning(absl::StrCat("text ", i));
  ASSERT_EQ(observer.reported.size(), Observer::kMostWarnings);
  EXPECT_EQ(observer.reported[0], longest);
  EXPECT_EQ(observer.reported[1], "text 0");
  EXPECT_THAT(observer.reported.back(), testing::HasSubstr("further warnings"));
  EXPECT_EQ(observer.warnings(), observer.reported);
}

}  // namespace
}  // namespace mpsd::train
