// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "core/model/class_loss.h"
#include "core/model/head_loss.h"
#include "core/selftest/checks.h"
#include "core/selftest/numeric_check.h"

namespace mpsd::selftest {
namespace {

// The head's logits and their cross-entropy by chunks; every fifth token is
// padding. The gradients are by the hidden states and, for a trained head, by
// its weight.
Numeric HeadLoss(const Sizes& s, bool trained) {
  // The reference keeps all logits of a chunk on the CPU.
  const int64_t labels = std::min<int64_t>(s.tokens(), 512);
  Numeric n;
  n.kernel = trained ? "trained head and cross-entropy, gradients"
                     : "head and cross-entropy, gradients";
  n.shape = absl::StrCat(labels, " × ", s.width, " → ", s.vocabulary);
  n.inputs = [=]() -> Tensors {
    const at::Tensor targets = Integers({labels}, s.vocabulary, 31);
    return {
        Normal({s.rows, s.length, s.width}, 32),
        Normal({s.vocabulary, s.width}, 33, 0.05),
        Integers({labels}, s.tokens(), 34),
        targets.masked_fill(at::arange(labels) % 5 == 4, base::kIgnoreIndex)};
  };
  n.function = WithGradients([=](const Tensors& t) -> Tensors {
    model::Linear head;
    head.weight = trained ? t[1] : t[1].detach();
    head.compute_in_input_dtype = true;
    return {model::SumCrossEntropy(t[0], head, {t[2], t[3], labels},
                                   /*chunk=*/200)};
  });
  return n;
}

Numeric ClassLoss(const Sizes& s, spec::ProblemType type) {
  constexpr int64_t kClassLabels = 5;
  const int64_t rows = s.rows * 16;
  const bool regression = type == spec::ProblemType::kRegression;
  const int64_t outputs = regression ? 1 : kClassLabels;
  Numeric n;
  n.kernel = absl::StrCat("loss of ", std::string(spec::ToString(type)),
                          ", gradients");
  n.shape = absl::StrCat(rows, " × ", outputs);
  n.inputs = [=]() -> Tensors {
    const at::Tensor classes = Integers({rows}, kClassLabels, 35);
    at::Tensor targets = classes;
    if (type == spec::ProblemType::kMultiLabel) {
      targets = classes.unsqueeze(1) >= at::arange(kClassLabels);
    } else if (regression) {
      targets = classes.unsqueeze(1);
    }
    return {Normal({rows, outputs}, 36), targets};
  };
  n.function = WithGradients([=](const Tensors& t) -> Tensors {
    const bool ids = type == spec::ProblemType::kSingleLabel;
    const at::Tensor weights =
        regression ? at::Tensor()
                   : at::linspace(0.5, 2, kClassLabels).to(t[0].device());
    return {model::SumClassLoss(type, t[0], ids ? t[1] : t[1].to(at::kFloat),
                                weights)};
  });
  return n;
}

}  // namespace

std::vector<Check> LossChecks(const Sizes& s) {
  std::vector<Check> checks;
  AddBoth(HeadLoss(s, false), checks);
  AddBoth(HeadLoss(s, true), checks);
  for (const auto type :
       {spec::ProblemType::kSingleLabel, spec::ProblemType::kMultiLabel,
        spec::ProblemType::kRegression}) {
    checks.push_back(MakeCheck(ClassLoss(s, type), at::kFloat));
  }
  return checks;
}

}  // namespace mpsd::selftest
