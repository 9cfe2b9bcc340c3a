// SPDX-License-Identifier: Apache-2.0
// compare-devices with a device whose kernels are wrong on purpose.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "core/study/device_comparison.h"
#include "tests/core/study/study_job.h"
#include "tests/ops/fake_mps.h"

namespace mpsd::ops {
namespace {

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
