// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "core/study/device_comparison.h"
#include "tests/core/selftest/passes.h"
#include "tests/core/study/study_job.h"
#include "tests/ops/fake_mps.h"
#include "tests/ops/jobs.h"
#include "tests/ops/recorder.h"

// The self-test against kernels that are wrong on purpose.
// `check devices` with a device whose kernels are wrong on purpose.

namespace mpsd::ops {

namespace {

using selftest::Check;
using selftest::Sizes;
using testing::HasSubstr;

using Spoil = std::function<void(at::Tensor&)>;

void Drifts(at::Tensor& t) {
  if (t.is_floating_point()) t.mul_(1.05);
}

std::string Failures(const std::vector<Check>& checks) {
  const auto device = *device::OpenMps();
  std::string failures;
  for (const auto& result : selftest::RunChecks(*device, checks).results) {
    if (!result.passed()) failures += selftest::TableRow(result);
  }
  return failures;
}

// The bounds are narrow enough for a result that drifts.
TEST(SpoiltKernelsTest, ADriftIsCaught) {
  struct {
    std::vector<Check> (*checks)(const Sizes&);
    std::string op, caught;
  } const cases[] = {
      {selftest::MatrixChecks, "aten::mm", "matmul, longest sum"},
      {selftest::LayerChecks, "aten::rsqrt", "RMS norm"},
      {selftest::LayerChecks, "aten::native_layer_norm", "layer norm"},
      {selftest::LayerChecks, "aten::silu", "silu"},
      {selftest::LayerChecks, "aten::gelu_backward", "gelu"},
      {selftest::LayerChecks, "aten::embedding_dense_backward", "embedding"},
      {selftest::LayerChecks, "aten::_softmax", "softmax"},
      {selftest::LossChecks, "aten::_log_softmax", "head and cross-entropy"},
      {selftest::LossChecks, "aten::nll_loss_forward", "single_label"},
      {selftest::DeviceChecks, "aten::copy_", "casts"},
      {selftest::DeviceChecks, "aten::_fused_adamw_", "AdamW"},
  };
  InstallFakeMps();
  for (const auto& c : cases) {
    SpoilKernel(c.op, Drifts);
    EXPECT_THAT(Failures(c.checks(selftest::Small())), HasSubstr(c.caught))
        << c.op;
    SpoilKernel(c.op, nullptr);
  }
}

// Each operator of the self-test, which runs all that training runs (see
// TheSelftestRunsEveryOperator), wrong in turn.

// One place in the middle is off by as much as the largest number is.
void MissesOnePlace(at::Tensor& t) {
  if (t.numel() == 0) return;
  at::Tensor place = t;
  int64_t index = t.numel() / 2;
  for (int64_t rest = t.numel(); place.dim() > 0;) {
    rest /= place.size(0);
    place = place.select(0, index / rest);
    index %= rest;
  }
  if (t.scalar_type() == at::kBool) {
    place.logical_not_();
  } else if (t.is_floating_point()) {
    const double largest =
        t.to(at::kFloat).nan_to_num(0, 0, 0).abs().max().item<double>();
    place.add_(largest > 0 ? largest : 1);
  } else {
    place.add_(1);
  }
}

// Whether a check that calls the operator finds it wrong; the cheapest first.
bool IsCaught(const std::string& op, const Spoil& spoil,
              device::Device& device) {
  std::vector<const RunCheck*> users;
  for (const RunCheck& run : SelftestRun()) {
    if (run.operators.contains(op)) users.push_back(&run);
  }
  std::sort(users.begin(), users.end(),
            [](const RunCheck* a, const RunCheck* b) {
              return a->seconds < b->seconds;
            });
  SpoilKernel(op, spoil);
  const bool caught =
      std::any_of(users.begin(), users.end(), [&](const RunCheck* run) {
        return !selftest::RunChecks(device, {run->check}).passed();
      });
  SpoilKernel(op, nullptr);
  return caught;
}

// Numbers that are drawn are right or wrong by their distribution alone.
bool IsDrawn(const std::string& op) {
  const size_t end = op.find('(');
  const std::string name = op.substr(0, op.find_first_of(".("));
  const std::string overload =
      op[name.size()] == '.' ? op.substr(name.size() + 1, end - name.size() - 1)
                             : "";
  return DrawsRandomNumbers(
      *c10::Dispatcher::singleton().findSchema({name, overload}));
}

TEST(SpoiltOperatorsTest, NothingIsWrongAsItIs) {
  std::string failures;
  for (const RunCheck& run : SelftestRun()) failures += run.failure;
  EXPECT_EQ(failures, "");
}

// A daemon's first job waits for it. MPS compiles a graph or a pipeline for
// each new signature, in some ten milliseconds.
TEST(SpoiltOperatorsTest, TheSelftestIsSoonDone) {
  std::set<std::string> signatures;
  int64_t kernels = 0;
  for (const RunCheck& run : SelftestRun()) {
    signatures.insert(run.signatures.begin(), run.signatures.end());
    kernels += run.kernels;
  }
  RecordProperty("signatures", static_cast<int>(signatures.size()));
  RecordProperty("kernels", static_cast<int>(kernels));
  EXPECT_LE(signatures.size(), 4000u);
  EXPECT_LE(kernels, 120'000);
}

TEST(SpoiltOperatorsTest, EachIsCaught) {
  const auto device = *device::OpenMps();
  std::set<std::string> missed;
  for (const std::string& op : RunBySelftest()) {
    const Spoil spoil = IsDrawn(op) ? Drifts : MissesOnePlace;
    if (!IsCaught(op, spoil, *device)) missed.insert(op);
  }
  EXPECT_THAT(missed, testing::IsEmpty());
}

using nlohmann::json;

class WrongDeviceTest : public testing::Test {
 protected:
  WrongDeviceTest() { InstallFakeMps(); }
  ~WrongDeviceTest() override { SpoilKernel("aten::mm", nullptr); }

  // The CPU's steps against those of the fake MPS.
  json Look() {
    const auto run = job_.Study(
        wire::JobKind::kDeviceComparison,
        {{"devices", {"cpu", "mps"}}, {"steps", 3}, {"warmup_steps", 0}},
        observer_);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? job_.Result() : json::object();
  }

  study::StudyJob job_{"wrong_device"};
  testing_support::RecordingObserver observer_;
};

// The control: the kernels of the fake MPS compute on the CPU, by other ways
// and with other padding. How fast they do decides nothing here.
TEST_F(WrongDeviceTest, ARightDevicePasses) {
  const json result = Look();
  const json& comparison = result["device_comparison"];
  EXPECT_EQ(comparison["device"], "mps");
  EXPECT_EQ(comparison["same_batches"], true);
  EXPECT_EQ(comparison["metric"], "loss");
  for (const char* name :
       {"compare.loss", "compare.gradient", "compare.metric"}) {
    EXPECT_EQ(job_.Finding(name)["verdict"], "VERDICT_PASS")
        << job_.Finding(name);
    EXPECT_LT(job_.Finding(name)["value"], 1e-4) << name;
  }
}

TEST_F(WrongDeviceTest, AMatmulThatIsOffByAThousandthFails) {
  SpoilKernel("aten::mm", [](at::Tensor& t) {
    if (t.is_floating_point()) t.mul_(1.001);
  });
  const json result = Look();
  EXPECT_EQ(result["verdict"], "VERDICT_FAIL");
  const json gradient = job_.Finding("compare.gradient");
  EXPECT_EQ(gradient["verdict"], "VERDICT_FAIL") << gradient;
  EXPECT_GT(gradient["value"], 2e-4);
  // What both devices were given is the same.
  EXPECT_EQ(result["device_comparison"]["same_batches"], true);
}

}  // namespace

}  // namespace mpsd::ops
