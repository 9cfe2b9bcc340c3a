// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/detail/MPSHooksInterface.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/data/batch.h"
#include "core/generate/generator.h"
#include "tests/core/golden_model.h"
#include "tests/ops/fake_mps.h"
#include "tests/ops/jobs.h"
#include "tests/ops/recorder.h"

// Whole runs of the trainer on the fake MPS, one for every configuration.
// A call that is at fault for every rule, and one like it that is not.

namespace mpsd::ops {

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(BudgetTest, ReadsWhatItWritesAndNamesWhatIsMore) {
  const Budget budget = {{"a", {1, 2, 3, 4, 5, 6}},
                         {"b", {6, 7, 8, 9, 10, 11}}};
  EXPECT_EQ(ParseBudget(ToText(budget)), budget);
  EXPECT_FALSE(ParseBudget("a 1 2 3").has_value());
  EXPECT_FALSE(ParseBudget("a 1 2 3 4 5 6 7").has_value());
  EXPECT_THAT(Excess({10, 2, 3, 1, 1, 5}, {9, 2, 4, 1, 1, 4}),
              ElementsAre("kernels 10, budget 9", "shapes 5, budget 4"));
  EXPECT_THAT(Excess({9, 2, 3, 1, 1, 4}, {9, 2, 4, 1, 1, 4}), IsEmpty());
  Recording recording;
  recording.parts = {{"begin", 100, 100, 100, 100, 100, {"x"}, {}},
                     {"step", 1, 10, 7, 1, 2, {"a", "b"}, {}},
                     {"step", 2, 20, 5, 0, 1, {"b", "c"}, {}}};
  EXPECT_EQ(CostOf(recording), (Cost{3, 30, 7, 2, 1, 3}));
}

using testing::Contains;
using testing::Key;
using testing::Not;

class FakeMpsTest : public testing::Test {
 protected:
  FakeMpsTest() { InstallFakeMps(); }
  static at::Tensor OnMps(const at::Tensor& t) { return t.to(at::kMPS); }
  static void ExpectEqual(const at::Tensor& on_mps, const at::Tensor& host) {
    ASSERT_TRUE(on_mps.is_mps());
    EXPECT_TRUE(at::equal(on_mps.cpu(), host)) << on_mps.cpu() << host;
  }
};

TEST_F(FakeMpsTest, ComputesWhatTheCpuDoes) {
  const at::Tensor a = at::rand({3, 4}), b = at::rand({4, 5});
  ExpectEqual(at::matmul(OnMps(a), OnMps(b)), at::matmul(a, b));
  ExpectEqual(at::softmax(OnMps(a) * 2 + 1, -1), at::softmax(a * 2 + 1, -1));
  ExpectEqual(at::cat({OnMps(a), OnMps(a)}), at::cat({a, a}));
  ExpectEqual(at::arange(5, at::device(at::kMPS)), at::arange(5));
}

// As MPS has it: of numbers that are nearly the same nothing is left.
TEST_F(FakeMpsTest, SoftmaxBackwardRoundsItsSums) {
  const auto error = [](double common) {
    at::manual_seed(7);
    const at::Tensor p = at::softmax(at::randn({8, 64}), -1).to(at::kBFloat16);
    const at::Tensor dp = (at::randn({8, 64}) + common).to(at::kBFloat16);
    const at::Tensor exact = at::_softmax_backward_data(
        dp.to(at::kFloat), p.to(at::kFloat), -1, at::kFloat);
    const at::Tensor ours =
        at::_softmax_backward_data(OnMps(dp), OnMps(p), -1, at::kBFloat16)
            .cpu()
            .to(at::kFloat);
    return ((ours - exact).norm() / exact.norm()).item<double>();
  };
  EXPECT_LE(error(0), 0.01);
  EXPECT_GE(error(100), 0.1);
}

// The dispatch table is MPS's, not the CPU's.
TEST_F(FakeMpsTest, DispatchesAsOnAMac) {
  Recorder recorder;
  const at::Tensor w =
      at::rand({3, 4}, at::device(at::kMPS)).requires_grad_(true);
  at::linear(at::rand({2, 4}, at::device(at::kMPS)), w).sum().backward();
  at::dropout(w, 0.5, /*train=*/true);
  EXPECT_THAT(recorder.operators(), Contains("aten::linear"));
  EXPECT_THAT(recorder.operators(), Contains("aten::linear_backward"));
  EXPECT_THAT(recorder.operators(), Not(Contains("aten::mm")));
  EXPECT_THAT(recorder.operators(), Contains("aten::native_dropout"));
  EXPECT_THAT(recorder.missing(), IsEmpty());
}

TEST_F(FakeMpsTest, ReportsOperatorsThatMpsHasNot) {
  Recorder recorder;
  const at::Tensor x = at::eye(3, at::device(at::kMPS));
  const auto [values, vectors] = at::linalg_eig(x);
  EXPECT_THAT(recorder.missing(), Contains(Key("aten::linalg_eig")));
  // It ran anyway, so that one run finds all.
  EXPECT_EQ(values.sizes(), at::IntArrayRef({3}));
}

TEST_F(FakeMpsTest, CountsMemoryThatLives) {
  const int64_t before = LiveBytes();
  {
    const at::Tensor a = at::zeros({256}, at::device(at::kMPS));
    const at::Tensor view = a.narrow(0, 0, 8);
    EXPECT_EQ(LiveBytes() - before, 1024);
  }
  EXPECT_EQ(LiveBytes(), before);
}

TEST_F(FakeMpsTest, ShapesOnlyNeedsNoMemory) {
  SetExecution(Execution::kShapesOnly);
  {
    const at::Tensor a =
        at::empty({1 << 20, 1 << 12}, at::device(at::kMPS).dtype(at::kHalf));
    const at::Tensor w = at::empty({8, 1 << 12}, a.options());
    const at::Tensor y = at::linear(a, w).index_select(
        0, at::zeros({7}, at::device(at::kMPS).dtype(at::kLong)));
    EXPECT_EQ(y.sizes(), at::IntArrayRef({7, 8}));
    EXPECT_EQ(y.sum().to(at::kFloat).item<float>(), 0);
  }
  SetExecution(Execution::kCompute);
}

TEST_F(FakeMpsTest, ASpoiltKernelIsWrongUntilItIsMended) {
  const at::Tensor a = at::ones({2, 2}, at::device(at::kMPS));
  SpoilKernel("aten::mm", [](at::Tensor& result) { result.add_(1); });
  ExpectEqual(at::mm(a, a), at::full({2, 2}, 3.0));
  SpoilKernel("aten::mm", nullptr);
  ExpectEqual(at::mm(a, a), at::full({2, 2}, 2.0));
}

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

// Except for the first step of a run, and of its continuation, that has several
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
                          name.ends_with("_several") || name.ends_with("_dpo");
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

// What lives between steps is there after the third, but for the rotations and
// masks of the latest shape. The last two of the six steps are of the run's
// continuation.
TEST_P(JobOnMps, NothingGrowsFromStepToStep) {
  const std::vector<const RecordedPart*> steps = recording().named("step");
  ASSERT_GE(steps.size(), 6u);
  constexpr int64_t kLatestShape = 32 << 10;
  int64_t most = 0;
  for (size_t i = 0; i < 3; ++i) most = std::max(most, steps[i]->live);
  for (size_t i = 3; i < 6; ++i) {
    EXPECT_LE(steps[i]->live, most + kLatestShape) << "after step " << i + 1;
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

TEST(GenerationInTraining, IsLegalOnMpsAndLeavesTheLosses) {
  const Recording& asked =
      RecordingOf("CAUSAL_LM", {"causal_lm_samples", "llama3", "",
                                R"({"training": {"sample_prompts": ["row", "w"],
                                    "sample_steps": 2,
                                    "sample_max_new_tokens": 8}})"});
  EXPECT_THAT(asked.missing, IsEmpty());
  EXPECT_THAT(asked.faults, IsEmpty());
  const Recording& plain =
      RecordingOf("CAUSAL_LM", {"causal_lm_llama3", "llama3", "", ""});
  EXPECT_EQ(asked.losses, plain.losses);
}

// Answers of a golden model; null: nothing is recorded.
std::vector<generate::Answer> Generate(const std::string& family,
                                       device::Device& device, bool sampled,
                                       Recorder* recorder) {
  const std::string folder = Golden(family, "model").string();
  const auto weights = tensorfile::Weights::Open(folder).value();
  const auto decoder =
      model::Decoder::Load(*weights, spec::ReadModelConfig(folder).value(),
                           device.torch_device(), at::kFloat)
          .value();
  decoder->set_options({attention::KernelFor(device.traits())});
  decoder->set_commit([&] { device.Commit(); });
  generate::Generation generation;
  generation.settings.max_new_tokens = 40;
  generation.settings.do_sample = sampled;
  generation.go_on = [&](int64_t) {
    if (recorder != nullptr) recorder->Close("token");
    return true;
  };
  return generate::Answers(*decoder, device, generation,
                           {{5, 9, 30, 7}, {11}, {8, 20, 3}}, {0, 1, 2})
      .value();
}

using GenerationCase = std::tuple<const char*, bool>;
class GenerationOnMps : public testing::TestWithParam<GenerationCase> {};

// After the second token no shape is new, but of a read of eight greedy tokens
// and where longrope's angles change.
TEST_P(GenerationOnMps, IsLegalInFewShapesAndReadsBackRarely) {
  const auto [family, sampled] = GetParam();
  InstallFakeMps();
  const auto mps = device::OpenMps().value(), cpu = device::OpenCpu().value();
  Recorder recorder;
  const auto answers = Generate(family, *mps, sampled, &recorder);
  EXPECT_THAT(recorder.missing(), IsEmpty());
  EXPECT_THAT(recorder.faults(), IsEmpty());
  const auto& parts = recorder.parts();
  ASSERT_EQ(parts.size(), 40u);  // the prompts, and tokens but the last
  std::set<std::string> shapes = parts[2].signatures;
  int64_t syncs = 0, renewed = 0;
  for (size_t i = 3; i < parts.size(); ++i) {
    EXPECT_LE(parts[i].syncs, 1) << i;
    for (const std::string& op : parts[i].operators) {
      EXPECT_TRUE(RunBySelftest().contains(op)) << op;
    }
    EXPECT_EQ(parts[i].live, parts[2].live) << i;
    syncs += parts[i].syncs;
    const size_t before = shapes.size();
    shapes.insert(parts[i].signatures.begin(), parts[i].signatures.end());
    renewed += shapes.size() > before;
  }
  EXPECT_EQ(syncs, sampled ? 37 : 4);
  EXPECT_EQ(renewed, !sampled + (std::string(family) == "phi3"));
  const auto expected = Generate(family, *cpu, sampled, nullptr);
  for (size_t row = 0; row < answers.size(); ++row) {
    EXPECT_EQ(answers[row].ids, expected[row].ids) << row;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GenerationOnMps,
                         testing::Combine(testing::Values("llama3",
                                                          "mistral_window",
                                                          "gemma2", "phi3"),
                                          testing::Bool()));

using testing::HasSubstr;

class LegalityTest : public testing::Test {
 protected:
  LegalityTest() {
    InstallFakeMps();
    SetExecution(Execution::kShapesOnly);
  }
  ~LegalityTest() override { SetExecution(Execution::kCompute); }

  static at::Tensor Mps(at::IntArrayRef sizes,
                        at::ScalarType dtype = at::kFloat) {
    return at::empty(sizes, at::device(at::kMPS).dtype(dtype));
  }
  static std::set<std::string> FaultsOf(const std::function<void()>& run) {
    Recorder recorder;
    run();
    return recorder.faults();
  }
  static int64_t SyncsOf(const std::function<void()>& run) {
    Recorder recorder;
    run();
    recorder.Close("");
    return recorder.parts()[0].syncs;
  }
};

TEST_F(LegalityTest, TypesThatMpsHasNot) {
  EXPECT_THAT(FaultsOf([] { Mps({2}, at::kDouble); }),
              ElementsAre(HasSubstr("float64")));
  EXPECT_THAT(FaultsOf([] { Mps({2}, at::kComplexFloat); }),
              ElementsAre(HasSubstr("complex")));
  // A number in a C++ expression is float64 on the host, and stays there.
  EXPECT_THAT(FaultsOf([] { (Mps({2}) * 0.5).add_(at::Scalar(2.0)); }),
              IsEmpty());
  EXPECT_THAT(FaultsOf([] {
                at::mm(Mps({2, 3}, at::kLong), Mps({3, 2}, at::kLong));
              }),
              ElementsAre(HasSubstr("a product of integers")));
  EXPECT_THAT(FaultsOf([] { Mps({2}, at::kLong) * Mps({2}, at::kLong); }),
              IsEmpty());
  EXPECT_THAT(FaultsOf([] { Mps({2}, at::kBFloat16) * Mps({2}); }),
              ElementsAre(HasSubstr("dtypes mixed")));
  EXPECT_THAT(FaultsOf([] {
                Mps({2}) * Mps({2}, at::kBool);
                Mps({2}, at::kBFloat16).to(at::kFloat);
                Mps({2}).copy_(Mps({2}, at::kBFloat16));
              }),
              IsEmpty());
}

TEST_F(LegalityTest, LongSumsOfProducts) {
  const auto inner = [](int64_t k) {
    return FaultsOf([k] { at::mm(Mps({16, k}), Mps({k, 16})); });
  };
  EXPECT_THAT(inner(kGemmInner), ElementsAre(HasSubstr("32767 products")));
  EXPECT_THAT(inner(kGemmInner - 1), IsEmpty());
  const auto batched = [](int64_t k) {
    return FaultsOf([k] {
      at::baddbmm(Mps({1, 2, 2}), Mps({1, 2, k}), Mps({1, k, 2}));
    });
  };
  EXPECT_THAT(batched(kGemmInner), ElementsAre(HasSubstr("aten::baddbmm")));
  EXPECT_THAT(batched(kGemmInner - 1), IsEmpty());
}

// The gradient by the input sums over the outputs, that by the weight over the
// tokens.
TEST_F(LegalityTest, BothGemmsOfALinearsBackward) {
  const auto backward = [](int64_t tokens, int64_t out) {
    return FaultsOf([&] {
      const at::Tensor x = Mps({tokens, 4}).requires_grad_(true);
      const at::Tensor w = Mps({out, 4}).requires_grad_(true);
      at::linear(x, w).backward(Mps({tokens, out}));
    });
  };
  EXPECT_THAT(backward(kGemmInner, 8), ElementsAre(HasSubstr("a GEMM of")));
  EXPECT_THAT(backward(8, kGemmInner), ElementsAre(HasSubstr("a GEMM of")));
  EXPECT_THAT(backward(kGemmInner - 1, 8), IsEmpty());
}

TEST_F(LegalityTest, LargeTensors) {
  const int64_t half = int64_t{1} << 30;
  EXPECT_THAT(FaultsOf([=] {
                Mps({2, half}, at::kByte);
              }),
              ElementsAre(HasSubstr("2^31 or more")));
  EXPECT_THAT(FaultsOf([=] { Mps({half}, at::kFloat); }),
              ElementsAre(HasSubstr("4 GiB or more")));
  EXPECT_THAT(FaultsOf([=] { Mps({half - 1}, at::kFloat); }), IsEmpty());
}

TEST_F(LegalityTest, TargetsAndSidesThatItGetsWrong) {
  EXPECT_THAT(FaultsOf([] {
                Mps({4, 4}).t().add_(1);
              }),
              ElementsAre(HasSubstr("not contiguous: [4, 4]")));
  EXPECT_THAT(FaultsOf([] {
                Mps({4, 4}).narrow(1, 0, 2).normal_();
              }),
              ElementsAre(HasSubstr("aten::normal_")));
  EXPECT_THAT(FaultsOf([] {
                Mps({4, 4}).narrow(0, 1, 2).add_(1);
                Mps({4, 4}).narrow(1, 0, 2).copy_(Mps({4, 2}));
              }),
              IsEmpty());
  EXPECT_THAT(FaultsOf([] {
                at::mm(Mps({4, 3}).t(), Mps({4, 2}));
              }),
              ElementsAre(HasSubstr("a transposed view [3, 4] at its left")));
  EXPECT_THAT(FaultsOf([] {
                at::mm(Mps({4, 3}).t().contiguous(), Mps({4, 2}));
                at::mm(Mps({4, 3}), Mps({2, 3}).t());
                const at::Tensor b = Mps({4, 3}, at::kBFloat16);
                at::mm(b.t(), b);
              }),
              IsEmpty());
  EXPECT_THAT(FaultsOf([] {
                at::Tensor x = Mps({4, 8});
                at::_softmax_out(x, x, -1, /*half_to_float=*/false);
              }),
              ElementsAre(HasSubstr("in its input's place")));
  EXPECT_THAT(FaultsOf([] {
                const at::Tensor x = Mps({4, 8}, at::kBFloat16);
                at::_softmax(x, -1, /*half_to_float=*/false);
              }),
              IsEmpty());
}

TEST_F(LegalityTest, CallsThatWaitForTheDevice) {
  EXPECT_EQ(SyncsOf([] { Mps({}).item<float>(); }), 1);
  EXPECT_EQ(SyncsOf([] { Mps({8}).cpu(); }), 1);
  EXPECT_EQ(SyncsOf([] { at::zeros({8}).to(at::kMPS); }), 1);
  EXPECT_EQ(SyncsOf([] {
              at::zeros({8}).to(at::kMPS, at::kFloat, /*non_blocking=*/true);
              Mps({8}).copy_(Mps({8}));
              Mps({8}).add_(1);
            }),
            0);
}

TEST_F(LegalityTest, SignaturesTellShapesAndTypesApart) {
  Recorder recorder;
  Mps({2}).add_(1);
  Mps({2}).add_(2);
  Mps({3}).add_(1);
  recorder.Close("");
  int adds = 0;
  for (const std::string& signature : recorder.parts()[0].signatures) {
    adds += signature.starts_with("aten::add_");
  }
  EXPECT_EQ(adds, 2);
}

class OperatorsTest : public testing::Test {
 protected:
  OperatorsTest() { InstallFakeMps(); }
  static at::Tensor Mps(at::ScalarType dtype = at::kFloat) {
    return at::ones({2, 2}, at::device(at::kMPS).dtype(dtype));
  }
  static std::set<std::string> Made(const std::function<void()>& run) {
    Recorder recorder;
    run();
    recorder.Close("");
    return recorder.parts()[0].operators;
  }
};

TEST_F(OperatorsTest, AreToldApartByDtypeAndOverload) {
  const at::Tensor a = Mps(), b = Mps(at::kBFloat16);
  EXPECT_THAT(Made([&] { at::mm(a, a); }),
              ElementsAre("aten::mm(Float, Float)"));
  EXPECT_THAT(Made([&] { at::mm(b, b); }),
              ElementsAre("aten::mm(BFloat16, BFloat16)"));
  EXPECT_THAT(Made([&] { at::cat({a, a}); }), ElementsAre("aten::cat(Float)"));
  EXPECT_THAT(Made([&] { at::ones({2}).to(at::kMPS); }),
              ElementsAre("aten::copy_(Float, host)"));
  EXPECT_THAT(Made([&] { a.cpu(); }), ElementsAre("aten::copy_(host, Float)"));
  EXPECT_THAT(Made([&] {
                a.t().narrow(0, 1, 1).expand({3, 2}).select(0, 0);
                at::empty({3}, a.options());
                at::empty_like(a).resize_({4});
              }),
              IsEmpty());
  EXPECT_THAT(Made([&] { at::zeros({3}, a.options()); }), testing::SizeIs(1));
  EXPECT_THAT(Made([&] { at::arange(3, a.options()); }), testing::SizeIs(1));
}

TEST(RecorderTest, CountsAPart) {
  InstallFakeMps();
  const at::Tensor kept = at::zeros({256}, at::device(at::kMPS));
  Recorder recorder;
  {
    const at::Tensor a = at::empty({256}, at::device(at::kMPS));
    kept.add_(a);
    kept.sum().item<float>();
  }
  recorder.Close("first");
  at::tensor({int64_t{1}, int64_t{2}}).to(at::kMPS);
  at::zeros({8}).index_select(0, at::zeros({3}, at::kLong));
  const auto longs = at::device(at::kMPS).dtype(at::kLong);
  kept.view({16, 16}).index_select(0, at::zeros({5}, longs));
  kept.index_select(0, at::zeros({7}, longs));  // numbers, no rows
  recorder.Close("second");
  at::detail::getMPSHooks().deviceSynchronize();
  recorder.Close("third");
  const auto& parts = recorder.parts();
  ASSERT_EQ(parts.size(), 3);
  EXPECT_EQ(parts[0].name, "first");
  EXPECT_EQ(parts[0].kernels, 4);  // empty, add_, sum, _local_scalar_dense
  EXPECT_EQ(parts[0].bytes, 1024 + 4);
  EXPECT_EQ(parts[0].peak, 1024 + 4);
  EXPECT_EQ(parts[0].syncs, 1);
  EXPECT_EQ(parts[0].uploads, 0);
  EXPECT_EQ(parts[1].uploads, 1);
  EXPECT_EQ(parts[1].syncs, 1);  // that copy is waited for
  EXPECT_THAT(parts[1].picked, ElementsAre(5));
  EXPECT_EQ(parts[2].syncs, 1);
}

}  // namespace

}  // namespace mpsd::ops
