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
#include "tests/ops/selftest_run.h"

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

// By operator and dtype: a kernel that training needs and the self-test does
// not run could be wrong unseen.
TEST_P(JobOnMps, TheSelftestRunsEveryOperator) {
  std::set<std::string> left_out;
  for (const RecordedPart& part : recording().parts) {
    for (const std::string& op : part.operators) {
      if (!RunBySelftest().contains(op)) left_out.insert(op);
    }
  }
  EXPECT_THAT(left_out, IsEmpty()) << GetParam().configuration.name;
}

// But for the first step of a run, and of its continuation, that has several
// micro-batches: the host waits after one to learn how long it takes.
TEST_P(JobOnMps, AStepWaitsForItsReadBackAlone) {
  const std::string& name = GetParam().configuration.name;
  int more = 0;
  for (const RecordedPart* step : recording().named("step")) {
    EXPECT_LE(step->syncs, 2) << name;
    more += step->syncs > 1;
  }
  EXPECT_EQ(more, name == "causal_lm_accumulation" ? 2 : 0) << name;
}

// So that the device begins before all is encoded: networks of two layers are
// handed over above them and after the micro-batch at least.
TEST_P(JobOnMps, WorkIsCommittedWithinAMicroBatch) {
  const std::string& name = GetParam().configuration.name;
  if (name == "seq_cls_bert_weights" || name == "image_cls_vit_grey_full") {
    GTEST_SKIP() << "one layer";
  }
  const int64_t micro_batches = name == "causal_lm_accumulation" ? 3 : 1;
  for (const RecordedPart* step : recording().named("step")) {
    EXPECT_GE(step->commits, 2 * micro_batches) << name;
  }
}

// The integers of all its micro-batches together, and the floats of those that
// have any.
TEST_P(JobOnMps, AStepsInputsAreOneUpload) {
  const std::string& name = GetParam().configuration.name;
  const bool has_floats = name.starts_with("image_cls") ||
                          name.ends_with("_regression") ||
                          name.ends_with("_several");
  for (const RecordedPart* step : recording().named("step")) {
    EXPECT_EQ(step->uploads, 1 + has_floats) << name;
  }
}

// Of 24 rows in batches of four: copies there for each, and one back for all.
TEST_P(JobOnMps, AnEvaluationReadsBackRarely) {
  for (const RecordedPart* part : recording().named("evaluation")) {
    EXPECT_LE(part->syncs, 1) << GetParam().configuration.name;
    EXPECT_LE(part->uploads, 6 * 2) << GetParam().configuration.name;
  }
}

// What lives between steps is there after the third, but for what is kept of a
// shape that came later. The last two of the six steps are of the run's
// continuation, in which shapes are new again.
TEST_P(JobOnMps, NothingGrowsFromStepToStep) {
  const std::vector<const RecordedPart*> steps = recording().named("step");
  ASSERT_GE(steps.size(), 6u);
  std::set<int64_t> shapes;
  int64_t most = 0;
  for (size_t i = 0; i < 6; ++i) {
    const size_t known = shapes.size();
    shapes.insert(steps[i]->picked.begin(), steps[i]->picked.end());
    if (i > 2 && shapes.size() == known) {
      EXPECT_LE(steps[i]->live, most) << "after step " << i + 1;
    }
    most = std::max(most, steps[i]->live);
  }
}

// Tokens are rows times the lengths of the buckets, labels have buckets too.
TEST_P(JobOnMps, ShapesAreThoseOfTheBuckets) {
  std::set<int64_t> allowed = {16};
  for (const int64_t length : data::LengthBuckets(recording().max_length)) {
    for (int64_t rows = 1; rows <= 8; ++rows) allowed.insert(rows * length);
  }
  for (const int64_t count : data::LengthBuckets(8 * 48)) allowed.insert(count);
  for (const RecordedPart& part : recording().parts) {
    for (const int64_t count : part.picked) {
      if (count <= 8) continue;
      EXPECT_THAT(allowed, Contains(count));
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
