// SPDX-License-Identifier: Apache-2.0
#include "core/train/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/core/train/lm_parts.h"

namespace mpsd::train {
namespace {

class EvaluateTest : public LmParts {
 protected:
  absl::StatusOr<EvalResult> Evaluation(
      std::vector<data::Batch> batches,
      const std::function<bool(double)>& go_on) {
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
  auto alone = [&](const data::Batch& batch) {
    return *Evaluation({batch}, [](double) { return true; });
  };
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
    const auto alone =
        Evaluation({batches.back()}, [](double) { return true; });
    sum += alone->loss * alone->label_tokens;
    labels += alone->label_tokens;
  }
  const auto all = Evaluation(batches, [](double) { return true; });
  EXPECT_EQ(all->label_tokens, labels);
  EXPECT_NEAR(all->loss, sum / labels, 1e-7);
}

TEST_F(EvaluateTest, AnEvaluationCanBeStopped) {
  EXPECT_TRUE(absl::IsCancelled(
      Evaluation({MakeBatch({4}, 4)}, [](double) { return false; }).status()));
}

TEST_F(EvaluateTest, ALanguageModelsMetricIsPerplexity) {
  const auto result =
      Evaluation({MakeBatch({9, 3}, 9)}, [](double) { return true; });
  ASSERT_EQ(result->metrics.size(), 1u);
  EXPECT_EQ(result->metrics[0].first, "perplexity");
  EXPECT_DOUBLE_EQ(result->metrics[0].second, std::exp(result->loss));
  EXPECT_EQ(result->predictions.rows(), 0);
}

TEST_F(EvaluateTest, DropoutIsOff) {
  auto loss = [&] {
    return Evaluation({MakeBatch({9, 3}, 9)}, [](double) { return true; })
        ->loss;
  };
  EXPECT_EQ(loss(), loss());
}

TEST_F(EvaluateTest, ALossThatIsNotFiniteIsAnError) {
  adapter_->parameters().groups()[0].values.fill_(
      std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(absl::IsDataLoss(
      Evaluation({MakeBatch({4}, 4)}, [](double) { return true; }).status()));
}

}  // namespace
}  // namespace mpsd::train
