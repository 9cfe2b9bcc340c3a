// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/operators.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/ops/recorder.h"

namespace mpsd::ops {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

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
}

TEST_F(OperatorsTest, ViewsAndMemoryMakeNoNumbers) {
  const at::Tensor a = Mps();
  EXPECT_THAT(Made([&] {
                a.t().narrow(0, 1, 1).expand({3, 2}).select(0, 0);
                at::empty({3}, a.options());
                at::empty_like(a).resize_({4});
              }),
              IsEmpty());
  EXPECT_THAT(Made([&] { at::zeros({3}, a.options()); }), testing::SizeIs(1));
  EXPECT_THAT(Made([&] { at::arange(3, a.options()); }), testing::SizeIs(1));
}

}  // namespace
}  // namespace mpsd::ops
