// SPDX-License-Identifier: Apache-2.0
// Whole runs of the trainer on the fake MPS, one for every configuration.
#include "tests/ops/jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "core/data/batch.h"
#include "tests/ops/budget.h"

namespace mpsd::ops {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::IsEmpty;

struct Case {
  friend void PrintTo(const Case& c, std::ostream* out) {
    *out << c.configuration.name;
  }
  std::string task;
  Configuration configuration;
};

class JobOnMps : public testing::TestWithParam<Case> {
 protected:
  const Recording& recording() const {
    return RecordingOf(GetParam().task, GetParam().configuration);
  }
};

TEST_P(JobOnMps, EveryOperatorHasAKernel) {
  EXPECT_THAT(recording().missing, IsEmpty())
      << "no kernel on MPS, in " << GetParam().configuration.name;
}

TEST_P(JobOnMps, EveryCallIsLegal) {
  EXPECT_THAT(recording().faults, IsEmpty())
      << "in " << GetParam().configuration.name
      << "; MPSD_OPS_BACKTRACE=1 says where it is called";
}

TEST_P(JobOnMps, AStepReadsBackOnce) {
  for (const Part* step : recording().named("step")) {
    EXPECT_EQ(step->syncs, 1) << GetParam().configuration.name;
  }
}

// What lives between steps is there after the third, but for what is kept of a
// shape that came later; a run of six steps is followed by its continuation, so
// that the first six parts count.
TEST_P(JobOnMps, NothingGrowsFromStepToStep) {
  const std::vector<const Part*> steps = recording().named("step");
  ASSERT_GE(steps.size(), 6u);
  std::set<std::vector<int64_t>> shapes;
  int64_t live = 0;
  for (size_t i = 0; i < 6; ++i) {
    const size_t known = shapes.size();
    shapes.insert(steps[i]->uploads.begin(), steps[i]->uploads.end());
    if (i > 2 && shapes.size() == known) {
      EXPECT_EQ(steps[i]->live, live) << "after step " << i + 1;
    }
    live = steps[i]->live;
  }
}

// Token ids have the lengths of the buckets, labels those of theirs.
TEST_P(JobOnMps, ShapesAreThoseOfTheBuckets) {
  const std::vector<int64_t> lengths =
      data::LengthBuckets(recording().max_length);
  for (const Part& part : recording().parts) {
    for (const std::vector<int64_t>& shape : part.uploads) {
      if (shape.size() == 2) {
        EXPECT_THAT(lengths, Contains(shape[1]));
      } else if (shape.size() == 1 && shape[0] > 4) {
        EXPECT_TRUE(shape[0] == 16 || shape[0] == 32 || shape[0] % 64 == 0 ||
                    shape[0] == 8)
            << shape[0];
      }
    }
  }
}

// Where nothing is drawn and nothing rounded, the path that MPS takes (tiles,
// buckets, its own dispatch) gives the CPU's losses.
TEST_P(JobOnMps, LossesAreTheCpus) {
  const std::string& name = GetParam().configuration.name;
  const std::string all = name + GetParam().configuration.job;
  const bool draws = all.find("dropout\"") != std::string::npos ||
                     (name.find("_cls_") != std::string::npos &&
                      GetParam().configuration.model.empty() &&
                      GetParam().configuration.family != "llama_classes" &&
                      GetParam().configuration.family != "qwen2" &&
                      GetParam().configuration.family != "vit_grey");
  if (draws || all.find("bf16") != std::string::npos) GTEST_SKIP();
  const Recording& cpu =
      RecordingOf(GetParam().task, GetParam().configuration, "cpu");
  ASSERT_EQ(recording().losses.size(), cpu.losses.size());
  for (size_t i = 0; i < cpu.losses.size(); ++i) {
    EXPECT_NEAR(recording().losses[i], cpu.losses[i], 1e-5) << name << " " << i;
  }
}

TEST_P(JobOnMps, StaysWithinItsBudget) {
  CheckBudget(GetParam().configuration.name, CostOf(recording()));
}

std::vector<Case> Cases(const std::string& task) {
  std::vector<Case> cases;
  for (const Configuration& c : Configurations(task))
    cases.push_back({task, c});
  return cases;
}

std::string Name(const testing::TestParamInfo<Case>& info) {
  return info.param.configuration.name;
}

INSTANTIATE_TEST_SUITE_P(CausalLm, JobOnMps,
                         testing::ValuesIn(Cases("CAUSAL_LM")), Name);
INSTANTIATE_TEST_SUITE_P(SeqCls, JobOnMps, testing::ValuesIn(Cases("SEQ_CLS")),
                         Name);
INSTANTIATE_TEST_SUITE_P(ImageCls, JobOnMps,
                         testing::ValuesIn(Cases("IMAGE_CLS")), Name);

}  // namespace
}  // namespace mpsd::ops
