// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/selftest/checks.h"
#include "tests/core/selftest/passes.h"

namespace mpsd::selftest {
namespace {

using testing::IsSupersetOf;

TEST(ClassifierChecksTest, TheCpuPasses) {
  ExpectAllPass(ClassifierChecks(Small()));
}

TEST(ClassifierChecksTest, NoPartOfTrainingIsLeftOut) {
  EXPECT_THAT(
      Kernels(ClassifierChecks(Small())),
      IsSupersetOf({"BERT, adapters", "RoBERTa, all weights",
                    "ViT, all weights", "decoder with classes, adapters"}));
}

}  // namespace
}  // namespace mpsd::selftest
