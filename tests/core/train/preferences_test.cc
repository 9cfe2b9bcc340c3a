// SPDX-License-Identifier: Apache-2.0
#include "core/train/preferences.h"

#include <algorithm>
#include <fstream>

#include "core/base/file.h"
#include "core/base/sha256.h"
#include "tests/core/train/train_jobs.h"

namespace mpsd::train {
namespace {

constexpr char kComputing[] = "computing the reference's log-probabilities";

// Pairs of several lengths, without dropout.
class PreferenceJob : public testing::Test {
 protected:
  PreferenceJob() {
    folder_.job()["preference"] = {{"trainer", "dpo"}, {"beta", 0.5}};
    folder_.job()["lora"]["lora_dropout"] = 0;
    for (const char* file : {"train.jsonl", "eval.jsonl"}) {
      std::ofstream rows(folder_.path() / file);
      for (int i = 0; i < 9; ++i) {
        rows << json{{"prompt", "row " + std::to_string(i) + " "},
                     {"chosen", std::string(1 + i % 4, 'a')},
                     {"rejected", std::string(1 + i * 5 % 7, 'b')}}
                    .dump()
             << "\n";
      }
    }
  }
  absl::StatusOr<RunResult> Run(const std::string& out) {
    observer_ = {};
    return Train(folder_, out, observer_);
  }
  bool computed() const {
    return std::count(observer_.stages.begin(), observer_.stages.end(),
                      kComputing) > 0;
  }
  void RemoveNumbers() {
    for (const auto& file : fs::directory_iterator(folder_.path() / "tokens")) {
      if (file.path().extension() == ".numbers") fs::remove(file);
    }
  }

  JobFolder folder_{"preference_job"};
  RecordingObserver observer_;
};

TEST_F(PreferenceJob, LearnsAndReportsTrlsMetrics) {
  const RunResult result = Run("out").value();
  EXPECT_LT(*result.eval_loss_after, *result.eval_loss_before);
  EXPECT_NEAR(*result.eval_loss_before, std::log(2), 1e-5);
  ASSERT_EQ(observer_.evals.size(), 3u);
  const report::Metrics& metrics = observer_.evals.back().metrics;
  ASSERT_EQ(metrics.size(), 6u);
  EXPECT_EQ(metrics[2].first, "rewards/accuracies");
  EXPECT_EQ(metrics[2].second, 1);
  EXPECT_NEAR(metrics[3].second, metrics[0].second - metrics[1].second, 1e-5);
  EXPECT_EQ(RunJson(folder_.path() / "out")["gradients"], kExplicitStep);
  const std::string log =
      *base::ReadFile(folder_.path() / "out" / "metrics.jsonl");
  EXPECT_THAT(log, HasSubstr(R"("rewards/margins":)"));
}

TEST_F(PreferenceJob, ResumesToTheSameBytesWithTheReferenceOfTheFirstAttempt) {
  ASSERT_THAT(Run("whole"), IsOk());
  EXPECT_TRUE(computed());
  observer_ = {};
  observer_.stop_after = 6;
  observer_.stop_kind = StopRequest::kCancel;
  ASSERT_THAT(Train(folder_, "parts", observer_), IsOk());
  EXPECT_FALSE(computed()) << "another run of the same model and rows";
  ASSERT_THAT(Run("parts"), IsOk());
  EXPECT_EQ(observer_.steps.front().step, 5);
  EXPECT_FALSE(computed());
  EXPECT_THAT(observer_.warnings(), IsEmpty()) << "the tokens are kept, too";
  EXPECT_EQ(AdapterBytes(folder_, "whole"), AdapterBytes(folder_, "parts"));
}

// Even then it is the reference of the weights that training began with, not of
// those in the checkpoint.
TEST_F(PreferenceJob, AReferenceThatWasLostIsComputedAgain) {
  ASSERT_THAT(Run("whole"), IsOk());
  observer_ = {};
  observer_.stop_after = 4;
  ASSERT_THAT(Train(folder_, "parts", observer_), IsOk());
  RemoveNumbers();
  ASSERT_THAT(Run("parts"), IsOk());
  EXPECT_TRUE(computed());
  EXPECT_EQ(AdapterBytes(folder_, "whole"), AdapterBytes(folder_, "parts"));
}

TEST_F(PreferenceJob, AnotherReferenceIsAnotherJob) {
  observer_.stop_after = 4;
  ASSERT_THAT(Train(folder_, "out", observer_), IsOk());
  const auto digests = [&] {
    return *base::ReadFile(ckpt::CheckpointPath(folder_.path() / "out", 4) /
                           "trainer_state.json");
  };
  EXPECT_THAT(digests(), HasSubstr("preference.beta"));
  folder_.job()["preference"]["beta"] = 0.25;
  EXPECT_THAT(Run("out").status().message(),
              HasSubstr("preference.beta is 0.25, the checkpoint's is 0.5"));
  folder_.job()["preference"]["beta"] = 0.5;
  // Numbers that were not computed by this model.
  for (const auto& file : fs::directory_iterator(folder_.path() / "tokens")) {
    if (file.path().extension() != ".numbers") continue;
    std::string bytes = *base::ReadFile(file.path());
    bytes[0] ^= 1;
    bytes.resize(bytes.size() - 64);
    std::ofstream(file.path()) << bytes << base::Sha256Hex(bytes);
  }
  EXPECT_THAT(Run("out").status().message(),
              HasSubstr("tokens.train is sha256 "));
}

TEST_F(PreferenceJob, AStopWhileTheReferenceIsComputedIsAStop) {
  observer_.stop_at_stage = kComputing;
  const RunResult stopped = Train(folder_, "out", observer_).value();
  EXPECT_EQ(stopped.stopped, StopRequest::kPreempt);
  EXPECT_EQ(stopped.steps, 0);
  ASSERT_THAT(Run("out"), IsOk());
  EXPECT_EQ(observer_.steps.size(), 8u);
}

TEST_F(PreferenceJob, BadRowsAreNamedAndLongOnesDropped) {
  std::ofstream(folder_.path() / "train.jsonl")
      << R"({"prompt": "a", "chosen": "b", "rejected": "c"})"
      << "\n"
      << R"({"prompt": "a", "chosen": "b"})"
      << "\n";
  EXPECT_THAT(Run("out").status().message(),
              HasSubstr("train.jsonl:2: expected \"prompt\", \"chosen\" and "
                        "\"rejected\", found \"prompt\", \"chosen\""));
  // The prompt alone fills max_length: no answer is left.
  std::ofstream(folder_.path() / "train.jsonl")
      << R"({"prompt": "a", "chosen": "b", "rejected": "c"})"
      << "\n"
      << json{{"prompt", std::string(60, 'a')},
              {"chosen", "b"},
              {"rejected", "c"}}
             .dump()
      << "\n";
  ASSERT_THAT(Run("out"), IsOk());
  EXPECT_THAT(observer_.warnings(),
              testing::Contains(HasSubstr("1 of 2 rows dropped: no label")));
}

}  // namespace
}  // namespace mpsd::train
