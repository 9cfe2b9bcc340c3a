// SPDX-License-Identifier: Apache-2.0
#include "core/worker/gates.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "core/worker/run_job.h"

namespace mpsd::worker {
namespace {

using nlohmann::json;

TEST(Gates, PrintTwoLinesOfJson) {
  setenv("HF_TOKEN", "hf_abc", 1);
  setenv("LC_ALL", "\x1b]0;x\xff", 1);
  std::ostringstream out, err;
  EXPECT_EQ(RunGates(out, err), 0) << err.str();
  unsetenv("HF_TOKEN");
  unsetenv("LC_ALL");
  std::istringstream lines(out.str());
  std::string first, second, third;
  std::getline(lines, first);
  std::getline(lines, second);
  EXPECT_FALSE(std::getline(lines, third));
  const json facts = json::parse(first), matmul = json::parse(second)["matmul"];
  EXPECT_EQ(facts["worker_version"], WorkerVersion());
  EXPECT_EQ(facts["built_against"], TorchVersion());
  EXPECT_NE(facts["torch_version"], "");
  EXPECT_EQ(facts["backends"].size(), 2u);
  EXPECT_EQ(facts["environment"]["HF_TOKEN"], "set");
  EXPECT_EQ(facts["environment"]["LC_ALL"], "\\x1b]0;x\\xff");
  EXPECT_EQ(matmul["right"], true);
  EXPECT_EQ(matmul["asked_device"], matmul["result_device"]);
}

TEST(Gates, AWrongProductIsSeen) {
  const at::Tensor right = at::matmul(LeftOperand(), RightOperand());
  EXPECT_TRUE(IsRightProduct(right));
  // In one element, by the smallest amount.
  at::Tensor spoilt = right.clone();
  spoilt[32][16] += 1;
  EXPECT_FALSE(IsRightProduct(spoilt));
  EXPECT_FALSE(IsRightProduct(at::zeros_like(right)));
  EXPECT_FALSE(IsRightProduct(right.t()));
  EXPECT_FALSE(IsRightProduct(right.to(at::kDouble)));
  spoilt = right.clone();
  spoilt[0][0] = std::nan("");
  EXPECT_FALSE(IsRightProduct(spoilt));
  // The operands as a wrong stride would read them.
  EXPECT_FALSE(IsRightProduct(
      at::matmul(LeftOperand().t().reshape({33, 65}), RightOperand())));
}

TEST(Gates, TheVersionInTorchsWords) {
  EXPECT_EQ(TorchVersionIn("PERF=1, TORCH_VERSION=2.15.0, USE_CUDA=1"),
            "2.15.0");
  EXPECT_EQ(TorchVersionIn("TORCH_VERSION=2.14.1"), "2.14.1");
  EXPECT_EQ(TorchVersionIn("nothing"), "");
}

}  // namespace
}  // namespace mpsd::worker
