// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "core/model/layers.h"
#include "core/selftest/checks.h"
#include "core/selftest/numeric_check.h"

namespace mpsd::selftest {
namespace {

std::string Tokens(const Sizes& s) {
  return absl::StrCat(s.tokens(), " × ", s.width);
}

// A function of hidden states and two vectors as wide as they are.
Numeric OfHidden(const Sizes& s, std::string kernel, Function function) {
  Numeric n;
  n.kernel = std::move(kernel);
  n.shape = Tokens(s);
  n.inputs = [s]() -> Tensors {
    return {Normal({s.rows, s.length, s.width}, 11), Normal({s.width}, 12),
            Normal({s.width}, 13)};
  };
  n.function = WithGradients(std::move(function));
  return n;
}

Numeric Activation(const Sizes& s, const std::string& name) {
  Numeric n;
  n.kernel = absl::StrCat(name, ", gradients");
  n.shape = absl::StrCat(s.tokens(), " × ", s.inner);
  n.inputs = [s]() -> Tensors {
    return {Normal({s.tokens(), s.inner}, 14, 3)};
  };
  n.function = WithGradients([name](const Tensors& t) -> Tensors {
    return {name == "tanh" ? at::tanh(t[0]) : model::Activate(t[0], name)};
  });
  return n;
}

Numeric Rotary(const Sizes& s) {
  Numeric n;
  n.kernel = "rotary, gradients";
  n.shape =
      absl::StrCat(s.rows, " × ", s.heads, " × ", s.length, " × ", s.head_dim);
  n.inputs = [s]() -> Tensors {
    return {Normal({s.rows, s.heads, s.length, s.head_dim}, 15),
            at::arange(s.length).unsqueeze(0).expand({s.rows, s.length})};
  };
  n.function = WithGradients([s](const Tensors& t) -> Tensors {
    spec::ModelConfig config;
    config.head_dim = s.head_dim;
    const model::Rotary rotary(config, t[0].device());
    return {model::Rotary::Apply(t[0], rotary.Table(t[1], t[0].scalar_type()))};
  });
  return n;
}

// Looks up some rows often, most never.
Numeric Embedding(const Sizes& s) {
  Numeric n;
  n.kernel = "embedding, gradients";
  n.shape =
      absl::StrCat(s.vocabulary, " × ", s.width, ", ", s.tokens(), " tokens");
  n.inputs = [s]() -> Tensors {
    const at::Tensor ids = Integers({s.rows, s.length}, s.vocabulary, 16);
    return {Normal({s.vocabulary, s.width}, 17),
            at::where(ids % 3 == 0, ids % 7, ids)};
  };
  n.function = WithGradients(
      [](const Tensors& t) -> Tensors { return {at::embedding(t[0], t[1])}; });
  return n;
}

Numeric Softmax(const Sizes& s) {
  Numeric n;
  n.kernel = "softmax and its log, gradients";
  n.shape = absl::StrCat(s.length, " × ", s.vocabulary);
  n.inputs = [s]() -> Tensors {
    return {Normal({s.length, s.vocabulary}, 18, 4)};
  };
  n.function = WithGradients([](const Tensors& t) -> Tensors {
    return {at::softmax(t[0], -1, at::kFloat) +
            0.01 * at::log_softmax(t[0], -1, at::kFloat)};
  });
  return n;
}

// Softmax of scores in their own dtype, over as many keys as a row has.
Numeric ScoreSoftmax(const Sizes& s) {
  constexpr int64_t kQueries = 64;
  Numeric n;
  n.kernel = "softmax of scores";
  n.shape = absl::StrCat(kQueries, " × ", s.length);
  n.inputs = [s]() -> Tensors { return {Normal({kQueries, s.length}, 20)}; };
  n.function = [](const Tensors& t) -> Tensors {
    return {at::softmax(t[0], -1)};
  };
  return n;
}

// The reductions of a step: sums, maxima and norms over one dimension and over
// all; of bf16 numbers in fp32.
Numeric Reductions(const Sizes& s) {
  Numeric n;
  n.kernel = "sum, mean, maximum, norm";
  n.shape = Tokens(s);
  n.inputs = [s]() -> Tensors { return {Normal({s.tokens(), s.width}, 19)}; };
  n.function = [](const Tensors& t) -> Tensors {
    const at::Tensor x = t[0].to(at::kFloat);
    return {x.sum(-1),
            x.square().mean({-1}, true),
            x.amax(-1, true),
            at::linalg_vector_norm(x.flatten(), 2),
            x.abs(),
            x.cumsum(1),
            x.exp().sum(),
            t[0].sum({-1}, /*keepdim=*/true, at::kFloat),
            at::linalg_vector_norm(t[0], 2, {-1}, true, at::kFloat)};
  };
  return n;
}

// In bf16 the gradients by the weights are omitted: they are sums over all
// tokens, and backends may add those up in bf16.
void AddNorm(const Sizes& s, const std::string& name, const Function& norm,
             std::vector<Check>& checks) {
  checks.push_back(
      MakeCheck(OfHidden(s, name + ", gradients", norm), at::kFloat));
  const Function frozen = [norm](const Tensors& t) {
    return norm({t[0], t[1].detach(), t[2].detach()});
  };
  checks.push_back(
      MakeCheck(OfHidden(s, name + ", gradient by x", frozen), at::kBFloat16));
}

}  // namespace

std::vector<Check> LayerChecks(const Sizes& s) {
  std::vector<Check> checks;
  AddNorm(
      s, "RMS norm",
      [](const Tensors& t) -> Tensors {
        return {model::RmsNorm{"", t[1], 1e-6}.Forward(t[0])};
      },
      checks);
  AddNorm(
      s, "layer norm",
      [](const Tensors& t) -> Tensors {
        return {model::LayerNorm{"", t[1], t[2]}.Forward(t[0])};
      },
      checks);
  for (const char* name : {"silu", "gelu", "gelu_new", "relu", "tanh"}) {
    AddBoth(Activation(s, name), checks);
  }
  AddBoth(Rotary(s), checks);
  AddBoth(Embedding(s), checks);
  checks.push_back(MakeCheck(Softmax(s), at::kFloat));
  AddBoth(ScoreSoftmax(s), checks);
  AddBoth(Reductions(s), checks);
  return checks;
}

}  // namespace mpsd::selftest
