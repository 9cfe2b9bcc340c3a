// SPDX-License-Identifier: Apache-2.0
#include "core/selftest/checks.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "core/base/file.h"
#include "core/selftest/networks.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/selftest/passes.h"

namespace mpsd::selftest {
namespace {

TEST(ChecksTest, AllAreThoseOfEveryPart) {
  const Sizes s = Small();
  const auto device = *device::OpenCpu();
  EXPECT_EQ(AllChecks(s, *device).size(),
            MatrixChecks(s).size() + LayerChecks(s).size() +
                AttentionChecks(s, true).size() + LossChecks(s).size() +
                ExplicitChecks(s, device->traits()).size() +
                DeviceChecks(s).size() + DecoderChecks(s).size() +
                ClassifierChecks(s).size());
}

TEST(ChecksTest, CoverageIsOfNamesShapesAndTolerances) {
  const Check check{"mm", "2 × 3", 0.1, nullptr};
  const std::string coverage = Coverage({check});
  EXPECT_EQ(Coverage({check}), coverage);
  Check other = check;
  other.tolerance = 0.2;
  EXPECT_NE(Coverage({other}), coverage);
  other = check;
  other.kernel = "bmm";
  EXPECT_NE(Coverage({other}), coverage);
  EXPECT_NE(Coverage({check, check}), coverage);
}

// The CPU passes a part's checks, and none is left out.
void ExpectPart(const std::vector<Check>& checks,
                const std::vector<std::string>& kernels) {
  ExpectAllPass(checks);
  EXPECT_THAT(Kernels(checks), testing::IsSupersetOf(kernels));
}

TEST(PartsTest, OfMatricesLayersAndLosses) {
  ExpectPart(MatrixChecks(Small()),
             {"linear, gradients", "matmul, longest sum", "bmm, longest sum"});
  ExpectPart(
      LayerChecks(Small()),
      {"RMS norm, gradients", "layer norm, gradients", "rotary, gradients",
       "silu, gradients", "gelu, gradients", "embedding, gradients"});
  ExpectPart(LossChecks(Small()), {"head and cross-entropy, gradients",
                                   "trained head and cross-entropy, gradients",
                                   "loss of regression, gradients"});
}

TEST(PartsTest, OfAttentionAndTheDevice) {
  ExpectPart(AttentionChecks(Small(), true),
             {"tiled attention, causal, gradients",
              "tiled attention, packed, gradients",
              "the device's own attention, causal, gradients"});
  ExpectPart(DeviceChecks(Small()),
             {"casts", "copies of views", "no work is lost",
              "clipping and AdamW, 3 steps"});
}

TEST(PartsTest, OfClassifiers) {
  ExpectPart(ClassifierChecks(Small()),
             {"BERT, adapters", "RoBERTa, all weights", "ViT, all weights",
              "decoder with classes, adapters"});
}

TEST(PartsTest, OfDecoders) {
  ExpectPart(
      DecoderChecks(Small()),
      {"explicit step", "explicit step, packed", "explicit step, windowed",
       "all weights of a decoder, norms of outputs and soft caps",
       "explicit step, fused linears, half of a head rotated",
       "explicit step, NF4", "modules_to_save", "all weights of a decoder",
       "generation, windowed, soft caps", "generation, norms of heads"});
}

TEST(PartsTest, OfTheExplicitStepByKernelsOfTheCpuAndOfMps) {
  using backend::Choice;
  const backend::Traits& cpu = backend::TraitsOf(Choice::kCpu);
  ExpectAllPass(ExplicitChecks(Small(), cpu));
  Sizes longer = Small();
  longer.length = 1200;
  EXPECT_EQ(ExplicitChecks(longer, cpu).size(),
            ExplicitChecks(Small(), cpu).size() + 2);
  ExpectPart(ExplicitChecks(Small(), backend::TraitsOf(Choice::kMps)),
             {"explicit attention, causal", "explicit attention, packed",
              "explicit attention, windowed", "explicit norm, gradients",
              "explicit rotation, gradient",
              "explicit head and cross-entropy, gradient",
              "explicit trained head and cross-entropy, gradients"});
}

// A trial whose results on a device are off by `error` of the largest number.
NetworkTrial OffBy(double error, int64_t dims, int* references) {
  NetworkTrial trial;
  trial.kernel = "network";
  trial.shape = std::string("2");
  trial.train = [=](const Place&, bool reference) -> Tensors {
    if (reference) ++*references;
    const at::Tensor t = at::full({2}, reference ? 1 : 1 + error);
    return {dims == 1 ? t : t.unsqueeze(0)};
  };
  return trial;
}

double ErrorOn(const Check& check) {
  const auto device = *device::OpenCpu();
  return check.error(*device);
}

TEST(NetworkCheckTest, BothDtypesShareOneReference) {
  int references = 0;
  std::vector<Check> checks;
  AddNetwork(OffBy(0.5, 2, &references), checks);
  ASSERT_EQ(checks.size(), 2u);
  EXPECT_EQ(checks[0].shape, "2, float32");
  EXPECT_EQ(checks[0].tolerance, kNetworkFloatTolerance);
  EXPECT_EQ(checks[1].shape, "2, bfloat16");
  EXPECT_EQ(checks[1].tolerance, kNetworkBfloat16Tolerance);
  for (const Check& check : checks) EXPECT_NEAR(ErrorOn(check), 0.5, 1e-6);
  EXPECT_EQ(references, 1);
  // Sums over tokens may be added in bf16.
  checks.clear();
  AddNetwork(OffBy(0.5, 1, &references), checks);
  EXPECT_NEAR(ErrorOn(checks[0]), 0.5, 1e-6);
  EXPECT_NEAR(ErrorOn(checks[1]), 0.5 / kSumsInBfloat16, 1e-6);
}

// The gradient of a key's bias: nothing but rounding, whose sign says nothing.
TEST(NetworkCheckTest, WhatIsZeroButForRoundingIsHeldToTheLargest) {
  const auto error = [](double expected, double actual) {
    NetworkTrial trial;
    trial.train = [=](const Place&, bool reference) -> Tensors {
      return {at::ones({2}), at::full({2}, reference ? expected : actual)};
    };
    std::vector<Check> checks;
    AddNetwork(trial, checks);
    return ErrorOn(checks[0]);
  };
  EXPECT_LE(error(1e-9, -1e-9), 1e-8);
  EXPECT_NEAR(error(1e-9, 0.5), 0.5, 1e-6);
  EXPECT_NEAR(error(0.5, 0.25), 0.5, 1e-6);
}

// A drawn number that drops what should be kept.
TEST(NetworkCheckTest, TheBestAttemptCounts) {
  for (const int attempts : {1, 2, 3}) {
    int calls = 0;
    NetworkTrial trial;
    trial.attempts = attempts;
    trial.train = [&calls](const Place&, bool reference) -> Tensors {
      const bool wrong = !reference && calls++ == 0;
      return {at::full({2}, wrong ? 2.0 : 1.0)};
    };
    std::vector<Check> checks;
    AddNetwork(trial, checks);
    EXPECT_NEAR(ErrorOn(checks[0]), attempts == 1 ? 1 : 0, 1e-6);
    EXPECT_EQ(calls, std::min(attempts, 2));
  }
}

TEST(NetworkCheckTest, GradientsThatJumpAreComparedInFp32Alone) {
  NetworkTrial trial;
  trial.in_bf16 = false;
  std::vector<Check> checks;
  AddNetwork(trial, checks);
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0].shape, ", float32");
  Sizes wide;
  wide.width = 4096;
  EXPECT_EQ(WithinWidth(wide, 1024), Sizes{});
  EXPECT_EQ(WithinWidth(wide, 4096), wide);
}

Numeric Doubled(double factor) {
  Numeric n;
  n.kernel = "double";
  n.shape = std::string("3");
  n.inputs = []() -> Tensors { return {at::ones({3})}; };
  n.function = [=](const Tensors& t) -> Tensors { return {t[0] * factor}; };
  n.reference = [](const Tensors& t) -> Tensors { return {t[0] * 2}; };
  return n;
}

TEST(NumericCheckTest, ToleratesWhatTheDtypeRounds) {
  std::vector<Check> checks;
  AddBoth(Doubled(2), checks);
  ASSERT_EQ(checks.size(), 2);
  EXPECT_EQ(checks[0].shape, "3, float32");
  EXPECT_EQ(checks[0].tolerance, kFloatTolerance);
  EXPECT_EQ(checks[1].shape, "3, bfloat16");
  EXPECT_EQ(checks[1].tolerance, kBfloat16Tolerance);
  const auto device = *device::OpenCpu();
  EXPECT_EQ(checks[0].error(*device), 0);
  EXPECT_NEAR(MakeCheck(Doubled(3), at::kFloat).error(*device), 0.5, 1e-6);
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(CompareTest, ErrorsAreRelativeToTheLargestNumber) {
  const at::Tensor expected = at::tensor({1.0, -4.0});
  EXPECT_EQ(RelativeError(expected, expected), 0);
  EXPECT_DOUBLE_EQ(RelativeError(at::tensor({2.0, -4.0}), expected), 0.25);
  // What cannot be compared is infinitely wrong.
  EXPECT_TRUE(std::isinf(RelativeError(at::tensor({1.0}), expected)));
  EXPECT_TRUE(std::isinf(RelativeError(at::tensor({kNan, 2.0}), expected)));
}

using testing::HasSubstr;

Check WithError(const std::string& name, double error) {
  return {name, "3 × 4", 0.1, [=](device::Device&) { return error; }};
}

TEST(SelftestTest, AnErrorAboveItsToleranceFails) {
  const auto device = *device::OpenCpu();
  std::vector<std::string> seen;
  const Report report =
      RunChecks(*device, {WithError("good", 0.1), WithError("bad", 0.2)},
                [&](const Result& result) { seen.push_back(result.kernel); });
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(report.Summary(), "1 of 2 checks failed: bad (3 × 4)");
  EXPECT_THAT(seen, testing::ElementsAre("good", "bad"));
  EXPECT_TRUE(RunChecks(*device, {WithError("good", 0)}).passed());
}

TEST(SelftestTest, AnExceptionOrANaNFailsOnlyItsCheck) {
  const auto device = *device::OpenCpu();
  for (const double error : {std::numeric_limits<double>::infinity(), kNan}) {
    EXPECT_FALSE(RunChecks(*device, {WithError("odd", error)}).passed())
        << error;
  }
  const Check throws = {"throws", "", 1, [](device::Device&) -> double {
                          TORCH_CHECK(false, "no such kernel\nline two");
                        }};
  const Report report = RunChecks(*device, {throws, WithError("good", 0)});
  EXPECT_EQ(report.results[0].failure, "no such kernel");
  EXPECT_TRUE(report.results[1].passed());
}

TEST(SelftestTest, TheTableHasALineACheck) {
  const Result good{"bmm", "2 × 3", 0.001, 0.01, ""};
  const Result wrong{"mm", "4", 3, 0.01, ""};
  const Result failed{"cat", "", 0, 0, "boom"};
  const std::string row = TableRow(good);
  EXPECT_THAT(row, HasSubstr("0.001"));
  EXPECT_THAT(row, HasSubstr("ok\n"));
  EXPECT_THAT(TableRow(wrong), HasSubstr("WRONG\n"));
  EXPECT_THAT(TableRow(failed), HasSubstr("FAILED: boom\n"));
  // Columns are aligned for letters of any width.
  EXPECT_EQ(row.find("0.001") - 1, TableHeader().find("error"));
  Report report;
  for (const char* kernel : {"k0", "k1", "k2", "k3", "k4"}) {
    report.results.push_back({kernel, "s", 1, 0, ""});
  }
  EXPECT_EQ(report.Summary(),
            "5 of 5 checks failed: k0 (s); k1 (s); k2 (s); …");
}

Identity AnIdentity() {
  return {"mps", "M4", "25B78", "2.15.0", "0.1", "c0ffee", {}};
}

TEST(VerdictTest, ComesBackAsItWasWritten) {
  const auto path = FreshFolder("verdict") / "v.json";
  Report report;
  report.results = {{"mm", "2 × 3", std::numeric_limits<double>::infinity(),
                     0.1, "no such kernel"}};
  ASSERT_TRUE(WriteVerdict(path, AnIdentity(), report).ok());
  const auto verdict = ReadVerdict(path);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->identity, AnIdentity());
  EXPECT_FALSE(verdict->passed);
  EXPECT_EQ(verdict->summary, "1 of 1 checks failed: mm (2 × 3)");
}

TEST(VerdictTest, AnUnreadableFileHoldsNoVerdict) {
  const auto folder = FreshFolder("verdict_bad");
  EXPECT_FALSE(ReadVerdict(folder / "absent.json").has_value());
  for (const char* text :
       {"", "[]", "{}", R"({"passed": true, "summary": "", "identity": 3})",
        R"({"passed": 1, "summary": "", "identity": {}})"}) {
    std::ofstream(folder / "bad.json") << text;
    EXPECT_FALSE(ReadVerdict(folder / "bad.json").has_value()) << text;
  }
}

// One of a release that checked less.
TEST(VerdictTest, AFileThatDoesNotSayWhatItCheckedHoldsNoVerdict) {
  const auto path = FreshFolder("verdict_old") / "v.json";
  ASSERT_TRUE(WriteVerdict(path, AnIdentity(), {}).ok());
  std::string text = *base::ReadFile(path);
  const size_t at = text.find("\"checks\"");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 8, "\"czechs\"");
  std::ofstream(path) << text;
  EXPECT_FALSE(ReadVerdict(path).has_value());
}

TEST(VerdictTest, TheIdentityIsThisMachines) {
  const auto device = *device::OpenCpu();
  const Identity identity = IdentityOf(*device, "2.15.0", "0.1", {});
  EXPECT_EQ(identity.device, "cpu");
  EXPECT_FALSE(identity.chip.empty());
  EXPECT_FALSE(OsBuild().empty());
  EXPECT_EQ(identity, IdentityOf(*device, "2.15.0", "0.1", {}));
  Sizes larger;
  larger.inner *= 2;
  EXPECT_NE(identity, IdentityOf(*device, "2.15.0", "0.1", larger));
  EXPECT_NE(identity, IdentityOf(*device, "2.16.0", "0.1", {}));
  EXPECT_EQ(identity.checks, Coverage(AllChecks({}, *device)));
}

}  // namespace
}  // namespace mpsd::selftest
