// SPDX-License-Identifier: Apache-2.0
#include "core/study/smoke.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "tests/core/study/study_job.h"

namespace mpsd::study {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing_support::RecordingObserver;
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
  auto ran = job.Study(JobKind::kSmoke, json::object(), observer);
  ASSERT_TRUE(ran.ok()) << ran.status();
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
  auto ran = job.Study(JobKind::kSmoke, json::object(), observer);
  ASSERT_TRUE(ran.ok()) << ran.status();
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
  auto ran =
      job.Study(JobKind::kSmoke,
                {{"rows", 4}, {"thresholds", {{"smoke.epochs", 3}}}}, observer);
  ASSERT_TRUE(ran.ok()) << ran.status();
  EXPECT_EQ(job.Result()["smoke"]["epochs"].size(), 3u);
  EXPECT_EQ(job.Result()["smoke"]["rows"], 4);
  for (const json& wrong : {json{{"rows", 1'000'001}}, json{{"rows", -1}},
                            json{{"thresholds", {{"smoke.epochs", 1}}}},
                            json{{"thresholds", {{"smoke.epochs", 1001}}}}}) {
    EXPECT_EQ(job.Study(JobKind::kSmoke, wrong, observer).status().code(),
              absl::StatusCode::kInvalidArgument)
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
  auto ran = job.Study(JobKind::kSmoke, json::object(), observer);
  ASSERT_TRUE(ran.ok()) << ran.status();
  EXPECT_EQ(job.Finding("smoke.out_of_memory")["verdict"], "VERDICT_FAIL");
  EXPECT_EQ(job.Result()["smoke"]["epochs"].size(), 1u);
}

// The reference is this machine's own first run.
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
