// SPDX-License-Identifier: Apache-2.0
// The parity study against a device whose kernels are wrong on purpose.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "core/study/parity.h"
#include "tests/core/study/study_job.h"
#include "tests/ops/fake_mps.h"

namespace mpsd::ops {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class WrongDeviceTest : public testing::Test {
 protected:
  WrongDeviceTest() { InstallFakeMps(); }
  ~WrongDeviceTest() override { SpoilKernel("aten::mm", nullptr); }

  // The CPU's steps against those of the fake MPS.
  json Look() {
    const auto run = job_.Study(
        wire::JobKind::kParity,
        {{"reference_device", "cpu"}, {"device", "mps"}, {"steps", 3}},
        observer_);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? job_.Result() : json::object();
  }

  study::StudyJob job_{"wrong_device"};
  testing_support::RecordingObserver observer_;
};

// The control: the kernels of the fake MPS compute on the CPU, by other ways
// and with other padding.
TEST_F(WrongDeviceTest, ARightDevicePasses) {
  const json result = Look();
  EXPECT_EQ(result["verdict"], "VERDICT_PASS") << result["findings"];
  EXPECT_EQ(result["parity"]["device"], "mps");
  EXPECT_LT(job_.Finding("parity.gradient")["value"], 1e-4);
  EXPECT_LT(job_.Finding("parity.loss")["value"], 1e-4);
}

TEST_F(WrongDeviceTest, AMatmulThatIsOffByAThousandthFails) {
  SpoilKernel("aten::mm", [](at::Tensor& t) {
    if (t.is_floating_point()) t.mul_(1.001);
  });
  const json result = Look();
  EXPECT_EQ(result["verdict"], "VERDICT_FAIL");
  const json gradient = job_.Finding("parity.gradient");
  EXPECT_EQ(gradient["verdict"], "VERDICT_FAIL");
  EXPECT_GT(gradient["value"], 2e-4);
  // What was the same before the first step still is.
  EXPECT_EQ(job_.Finding("parity.start")["verdict"], "VERDICT_PASS");
  EXPECT_EQ(job_.Finding("parity.data")["verdict"], "VERDICT_PASS");
  // The table names what differs, the worst first.
  const json& tensors = result["parity"]["tensors"];
  ASSERT_FALSE(tensors.empty());
  EXPECT_THAT(tensors[0]["name"].get<std::string>(), HasSubstr("lora_"));
  EXPECT_GT(tensors[0]["relative_l2"], 2e-4);
  EXPECT_GE(tensors[0]["relative_l2"], tensors[1]["relative_l2"]);
}

}  // namespace
}  // namespace mpsd::ops
