// SPDX-License-Identifier: Apache-2.0
#include "core/study/parity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "tests/core/study/study_job.h"
#include "tests/core/train/lm_job.h"

namespace mpsd::study {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing_support::RecordingObserver;
using wire::JobKind;

class ParityTest : public testing::Test {
 protected:
  // The study's result, or why there is none.
  absl::StatusOr<json> Look(const json& options) {
    const auto run = job_.Study(JobKind::kParity, options, observer_);
    if (!run.ok()) return run.status();
    EXPECT_EQ(run->stopped, train::StopRequest::kNone);
    return job_.Result();
  }
  std::string VerdictOf(const std::string& finding) {
    const json found = job_.Finding(finding);
    return found.is_null() ? "none" : found["verdict"].get<std::string>();
  }

  StudyJob job_{"parity"};
  RecordingObserver observer_;
};

constexpr char kPass[] = "VERDICT_PASS";
constexpr char kFail[] = "VERDICT_FAIL";

// The job has dropout: two runs in one process draw nothing from each other.
TEST_F(ParityTest, TwoRunsOfOneDeviceAreEqualBitForBit) {
  const auto result =
      Look({{"reference_device", "cpu"}, {"device", "cpu"}, {"steps", 4}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ((*result)["verdict"], kPass) << *result;
  const json& parity = (*result)["parity"];
  EXPECT_EQ(parity["device"], "cpu");
  EXPECT_EQ(parity["dtype"], "fp32");
  ASSERT_EQ(parity["steps"].size(), 4u);
  for (const json& step : parity["steps"]) {
    EXPECT_EQ(step["loss"], step["reference_loss"]);
    EXPECT_EQ(step["grad_norm"], step["reference_grad_norm"]);
    EXPECT_EQ(step["loss_difference"], 0.0);
  }
  EXPECT_GT(parity["tensors_compared"], 0);
  EXPECT_EQ(parity["tensors_equal"], parity["tensors_compared"]);
  for (const json& tensor : parity["tensors"]) {
    EXPECT_EQ(tensor["max_abs"], 0.0) << tensor;
  }
  EXPECT_EQ(parity["metric"], "loss");
  EXPECT_EQ(parity["metric_value"], parity["reference_metric_value"]);
  for (const char* finding :
       {"parity.data", "parity.start", "parity.dtype", "parity.loss",
        "parity.gradient", "parity.values", "parity.metric"}) {
    EXPECT_EQ(VerdictOf(finding), kPass) << finding;
  }
  // Something was trained.
  EXPECT_NE(parity["trace"]["losses"][0], parity["trace"]["losses"][3]);
  EXPECT_NE(parity["trace"]["tensors"][0]["first"]["sha256"],
            parity["trace"]["tensors"][0]["last"]["sha256"]);
  // The steps of both are shown as one course, and nothing is left behind.
  EXPECT_EQ(observer_.steps.size(), 8u);
  EXPECT_EQ(observer_.steps.back().step, 8);
  EXPECT_EQ(observer_.steps.back().total_steps, 8);
  for (const auto& entry :
       std::filesystem::directory_iterator(job_.context().out_dir)) {
    EXPECT_EQ(entry.path().filename(), "result.json");
  }
}

TEST_F(ParityTest, AnotherMachinesResultIsComparedWith) {
  job_.job()["device"] = "cpu";
  auto there = Look({{"steps", 3}});
  ASSERT_TRUE(there.ok()) << there.status();
  EXPECT_EQ((*there)["verdict"], "VERDICT_UNSPECIFIED");
  EXPECT_EQ(VerdictOf("parity.trace"), "VERDICT_UNSPECIFIED");
  const json trace = (*there)["parity"]["trace"];

  auto here = Look({{"steps", 3}, {"trace", trace}, {"name", "r.json"}});
  ASSERT_TRUE(here.ok()) << here.status();
  EXPECT_EQ((*here)["verdict"], kPass) << *here;
  EXPECT_THAT((*here)["parity"]["reference"].get<std::string>(),
              HasSubstr("r.json: cpu"));
  EXPECT_EQ((*here)["parity"]["tensors_equal"],
            (*here)["parity"]["tensors_compared"]);

  // One wrong loss, one wrong gradient, other samples, other initial values.
  json bad = trace;
  bad["losses"][1] = trace["losses"][1].get<double>() * 1.01;
  ASSERT_TRUE(Look({{"steps", 3}, {"trace", bad}}).ok());
  EXPECT_EQ(VerdictOf("parity.loss"), kFail);
  EXPECT_EQ(VerdictOf("parity.gradient"), kPass);
  bad = trace;
  json& gradient = bad["tensors"][1]["gradient"];
  gradient["norm"] = gradient["norm"].get<double>() * 1.01;
  gradient["sha256"] = "0000000000000000";
  here = Look({{"steps", 3}, {"trace", bad}});
  ASSERT_TRUE(here.ok()) << here.status();
  EXPECT_EQ(VerdictOf("parity.gradient"), kFail);
  EXPECT_EQ((*here)["parity"]["tensors"][0]["name"], bad["tensors"][1]["name"]);
  bad = trace;
  bad["batches"][2] = "other";
  ASSERT_TRUE(Look({{"steps", 3}, {"trace", bad}}).ok());
  EXPECT_EQ(VerdictOf("parity.data"), kFail);

  // Another seed is another start and other batches.
  job_.training()["seed"] = 7;
  ASSERT_TRUE(Look({{"steps", 3}, {"trace", trace}}).ok());
  EXPECT_EQ(VerdictOf("parity.start"), kFail);
  EXPECT_EQ(VerdictOf("parity.data"), kFail);
}

TEST_F(ParityTest, AnotherDtypeWarnsAndHasItsOwnTolerances) {
  auto there = Look({{"steps", 2}});
  ASSERT_TRUE(there.ok()) << there.status();
  job_.training()["bf16"] = true;
  auto here = Look({{"steps", 2}, {"trace", (*there)["parity"]["trace"]}});
  ASSERT_TRUE(here.ok()) << here.status();
  EXPECT_EQ((*here)["parity"]["dtype"], "bf16");
  EXPECT_EQ(VerdictOf("parity.dtype"), "VERDICT_WARN");
  EXPECT_EQ(job_.Finding("parity.loss")["threshold"], 0.5);
  EXPECT_EQ(VerdictOf("parity.loss"), kPass);
}

// What a training of mpsd wrote down, dropout included.
json RecordOf(const std::filesystem::path& folder) {
  json record = {{"steps", json::array()}, {"losses", json::array()}};
  std::istringstream lines(*base::ReadFile(folder / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const json step = json::parse(line);
    record["steps"].push_back(step["step"]);
    record["losses"].push_back(step["loss"]);
    record["grad_norms"].push_back(step["grad_norm"]);
    record["label_tokens"].push_back(step["label_tokens"]);
  }
  return record;
}

TEST_F(ParityTest, ATrainingOfOurOwnIsFoundAgain) {
  RecordingObserver training;
  ASSERT_TRUE(train::Train(job_, "trained", training).ok());
  json record = RecordOf(job_.path() / "trained");
  ASSERT_EQ(record["steps"].size(), 8u);
  record["metric"] = "loss";
  record["metric_value"] = training.evals.back().eval_loss;
  record["metric_step"] = training.evals.back().step;
  auto result = Look({{"steps", 8}, {"recorded", record}, {"name", "m"}});
  ASSERT_TRUE(result.ok()) << result.status();
  const json& parity = (*result)["parity"];
  ASSERT_EQ(parity["steps"].size(), 8u);
  for (const json& step : parity["steps"]) {
    EXPECT_EQ(step["loss"], step["reference_loss"]) << step;
  }
  EXPECT_EQ(parity["metric_value"], parity["reference_metric_value"]);
  EXPECT_EQ(VerdictOf("parity.data"), kPass);
  EXPECT_EQ(VerdictOf("parity.loss"), kPass);
  EXPECT_EQ(VerdictOf("parity.metric"), kPass);
  // The job has dropout, which no other trainer draws alike.
  EXPECT_EQ((*result)["verdict"], "VERDICT_WARN");

  record["losses"][4] = record["losses"][4].get<double>() + 0.01;
  result = Look({{"steps", 8}, {"recorded", record}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ((*result)["verdict"], kFail);
  EXPECT_THAT(job_.Finding("parity.loss")["found"].get<std::string>(),
              HasSubstr("step 5"));
}

TEST_F(ParityTest, StepsEndWithTheJob) {
  // The daemon leaves it to the worker to make the folder.
  std::filesystem::remove_all(job_.context().out_dir);
  const auto result = Look({{"steps", 100}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ((*result)["parity"]["trace"]["losses"].size(), 8u);
  EXPECT_EQ(observer_.steps.back().step, 8);
  EXPECT_EQ(observer_.steps.back().total_steps, 8);
  observer_.steps.clear();
  ASSERT_TRUE(Look({{"steps", 100}, {"reference_device", "cpu"}}).ok());
  EXPECT_EQ(observer_.steps.front().total_steps, 16);
  EXPECT_EQ(observer_.steps.back().step, 16);
  EXPECT_EQ(observer_.steps.back().total_steps, 16);
}

TEST_F(ParityTest, TheCpuAgainstItselfIsNoAccident) {
  job_.job()["device"] = "auto";
  const auto result = Look({{"reference_device", "cpu"}});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr("neither MPS nor CUDA"));
  EXPECT_THAT(observer_.steps, testing::IsEmpty());
}

TEST_F(ParityTest, ADeviceThatIsNotThere) {
  EXPECT_EQ(Look({{"reference_device", "mps"}}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Look({{"reference_device", "tpu"}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ParityTest, AStopLeavesNothing) {
  observer_.stop_after = 2;
  const auto run =
      job_.Study(JobKind::kParity,
                 {{"reference_device", "cpu"}, {"device", "cpu"}, {"steps", 4}},
                 observer_);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->stopped, train::StopRequest::kPreempt);
  EXPECT_TRUE(std::filesystem::is_empty(job_.context().out_dir));
}

}  // namespace
}  // namespace mpsd::study
