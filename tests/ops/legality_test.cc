// SPDX-License-Identifier: Apache-2.0
// A call that is at fault for every rule, and one beside it that is not.
#include "tests/ops/legality.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/ops/recorder.h"

namespace mpsd::ops {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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

TEST_F(LegalityTest, Float64AndComplexNumbers) {
  EXPECT_THAT(FaultsOf([] { Mps({2}, at::kDouble); }),
              ElementsAre(HasSubstr("float64")));
  EXPECT_THAT(FaultsOf([] { Mps({2}, at::kComplexFloat); }),
              ElementsAre(HasSubstr("complex")));
  // A number in a C++ expression is float64 on the host, and stays there.
  EXPECT_THAT(FaultsOf([] { (Mps({2}) * 0.5).add_(at::Scalar(2.0)); }),
              IsEmpty());
}

TEST_F(LegalityTest, ProductsOfIntegers) {
  EXPECT_THAT(FaultsOf([] {
                at::mm(Mps({2, 3}, at::kLong), Mps({3, 2}, at::kLong));
              }),
              ElementsAre(HasSubstr("a product of integers")));
  EXPECT_THAT(FaultsOf([] { Mps({2}, at::kLong) * Mps({2}, at::kLong); }),
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

TEST_F(LegalityTest, MixedFloatingTypes) {
  EXPECT_THAT(FaultsOf([] { Mps({2}, at::kBFloat16) * Mps({2}); }),
              ElementsAre(HasSubstr("dtypes mixed")));
  EXPECT_THAT(FaultsOf([] {
                Mps({2}) * Mps({2}, at::kBool);
                Mps({2}, at::kBFloat16).to(at::kFloat);
                Mps({2}).copy_(Mps({2}, at::kBFloat16));
              }),
              IsEmpty());
}

TEST_F(LegalityTest, TargetsThatAreNotContiguous) {
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
}

TEST_F(LegalityTest, TransposedViewsAtTheLeft) {
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
}

TEST_F(LegalityTest, SoftmaxInPlace) {
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

}  // namespace
}  // namespace mpsd::ops
