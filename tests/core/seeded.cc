// SPDX-License-Identifier: Apache-2.0
// Linked into every test program on libtorch. A process' default generator
// starts from a seed of the system's: a test that draws without a seed of its
// own would be another test each time.
#include <ATen/Context.h>

#include "gtest/gtest.h"

namespace mpsd {
namespace {

class SeededTests : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo&) override { at::manual_seed(1); }
};

const bool registered = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new SeededTests);
  return true;
}();

}  // namespace
}  // namespace mpsd
