// SPDX-License-Identifier: Apache-2.0
// Checks the single computations of training: products, layers, losses and
// attention.
#include <ATen/ATen.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "core/model/attention.h"
#include "core/model/layers.h"
#include "core/model/losses.h"
#include "core/selftest/checks.h"

namespace mpsd::selftest {
namespace {

// x Wᵀ and the gradients by x and W: three GEMMs.
Numeric Linear(int64_t tokens, int64_t in, int64_t out, bool bias) {
  return {.kernel = "linear, gradients",
          .shape =
              absl::StrCat(tokens, " × ", in, " → ", out, bias ? ", bias" : ""),
          .inputs = [=]() -> Tensors {
            Tensors inputs = {Normal({tokens, in}, 1), Normal({out, in}, 2)};
            if (bias) inputs.push_back(Normal({out}, 3));
            return inputs;
          },
          .function = WithGradients([](const Tensors& t) -> Tensors {
            return {t.size() > 2 ? at::linear(t[0], t[1], t[2])
                                 : at::linear(t[0], t[1])};
          })};
}

// In bf16 the bias is omitted: its gradient is a sum over all tokens, and
// backends may add that up in bf16.
void AddWithBias(int64_t tokens, int64_t in, int64_t out,
                 std::vector<Check>& checks) {
  checks.push_back(MakeCheck(Linear(tokens, in, out, true), at::kFloat));
  checks.push_back(MakeCheck(Linear(tokens, in, out, false), at::kBFloat16));
}

// The gradient by W of y = x Wᵀ as the explicit step computes it, with a
// contiguous left operand.
Numeric WeightGradient(int64_t tokens, int64_t in, int64_t out) {
  return {.kernel = "matmul, left side transposed and copied",
          .shape = absl::StrCat(out, " × ", tokens, " · ", tokens, " × ", in),
          .inputs = [=]() -> Tensors {
            return {Normal({tokens, out}, 4), Normal({tokens, in}, 5)};
          },
          .function = [](const Tensors& t) -> Tensors {
            return {at::matmul(t[0].t().contiguous(), t[1])};
          },
          .reference = [](const Tensors& t) -> Tensors {
            return {at::matmul(t[0].t(), t[1])};
          }};
}

// The longest sum that training needs, at sizes where MPS used to read beyond
// the matrices (pytorch#177116, #195163).
Numeric LongSum(int64_t batch) {
  constexpr int64_t kInner = 32'766;
  return {
      .kernel = batch == 0 ? "matmul, longest sum" : "bmm, longest sum",
      .shape = absl::StrCat("17 × ", kInner, " · ", kInner, " × 16"),
      .inputs = [=]() -> Tensors {
        if (batch == 0)
          return {Normal({17, kInner}, 6), Normal({kInner, 16}, 7)};
        return {Normal({batch, 17, kInner}, 6), Normal({batch, kInner, 16}, 7)};
      },
      .function = [](const Tensors& t) -> Tensors {
        return {at::matmul(t[0], t[1])};
      }};
}

Numeric Batched(int64_t batch, int64_t m, int64_t k, int64_t n_) {
  return {.kernel = "bmm, right side transposed",
          .shape = absl::StrCat(batch, " × (", m, " × ", k, " · ", k, " × ", n_,
                                ")"),
          .inputs = [=]() -> Tensors {
            return {Normal({batch, m, k}, 8), Normal({batch, n_, k}, 9)};
          },
          .function = [](const Tensors& t) -> Tensors {
            const at::Tensor scores = at::bmm(t[0], t[1].transpose(1, 2));
            return {scores, at::bmm(scores, t[1]),
                    at::bmm(scores.transpose(1, 2).contiguous(), t[0])};
          }};
}

}  // namespace

std::vector<Check> MatrixChecks(const Sizes& s) {
  std::vector<Check> checks;
  AddBoth(Linear(s.tokens(), s.width, s.inner, false), checks);
  AddWithBias(s.tokens(), s.inner, s.width, checks);
  // The two products of an adapter, through its rank.
  AddBoth(Linear(s.tokens(), s.width, 16, false), checks);
  AddBoth(Linear(s.tokens(), 16, s.width, false), checks);
  // Sizes that are not a multiple of a tile.
  AddWithBias(61, 127, 33, checks);
  AddBoth(WeightGradient(s.tokens(), s.width, s.inner), checks);
  AddBoth(WeightGradient(37, 65, 17), checks);
  AddBoth(LongSum(0), checks);
  checks.push_back(MakeCheck(LongSum(2), at::kFloat));
  const int64_t tile = std::min<int64_t>(256, s.length);
  checks.push_back(
      MakeCheck(Batched(s.rows * s.kv_heads, s.heads / s.kv_heads * tile,
                        s.head_dim, tile),
                at::kFloat));
  return checks;
}

namespace {

std::string Tokens(const Sizes& s) {
  return absl::StrCat(s.tokens(), " × ", s.width);
}

// A function of hidden states and two vectors as wide as they are.
Numeric OfHidden(const Sizes& s, std::string kernel, Function function) {
  return {.kernel = std::move(kernel),
          .shape = Tokens(s),
          .inputs = [s]() -> Tensors {
            return {Normal({s.rows, s.length, s.width}, 11),
                    Normal({s.width}, 12), Normal({s.width}, 13)};
          },
          .function = WithGradients(std::move(function))};
}

Numeric Activation(const Sizes& s, const std::string& name) {
  return {
      .kernel = absl::StrCat(name, ", gradients"),
      .shape = absl::StrCat(s.tokens(), " × ", s.inner),
      .inputs = [s]() -> Tensors {
        return {Normal({s.tokens(), s.inner}, 14, 3)};
      },
      .function = WithGradients([name](const Tensors& t) -> Tensors {
        return {name == "tanh" ? at::tanh(t[0]) : model::Activate(t[0], name)};
      })};
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
  return {.kernel = "softmax and its log, gradients",
          .shape = absl::StrCat(s.length, " × ", s.vocabulary),
          .inputs = [s]() -> Tensors {
            return {Normal({s.length, s.vocabulary}, 18, 4)};
          },
          .function = WithGradients([](const Tensors& t) -> Tensors {
            return {at::softmax(t[0], -1, at::kFloat) +
                    0.01 * at::log_softmax(t[0], -1, at::kFloat)};
          })};
}

// Softmax of scores in their own dtype, over as many keys as a row has.
Numeric ScoreSoftmax(const Sizes& s) {
  constexpr int64_t kQueries = 64;
  return {.kernel = "softmax of scores",
          .shape = absl::StrCat(kQueries, " × ", s.length),
          .inputs = [s]() -> Tensors {
            return {Normal({kQueries, s.length}, 20)};
          },
          .function = [](const Tensors& t) -> Tensors {
            return {at::softmax(t[0], -1)};
          }};
}

// The reductions of a step: sums, maxima and norms over one dimension and over
// all; of bf16 numbers in fp32.
Numeric Reductions(const Sizes& s) {
  return {.kernel = "sum, mean, maximum, norm",
          .shape = Tokens(s),
          .inputs = [s]() -> Tensors {
            return {Normal({s.tokens(), s.width}, 19)};
          },
          .function = [](const Tensors& t) -> Tensors {
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
          }};
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

namespace {

// The head's logits and their cross-entropy by chunks; every fifth token is
// padding. The gradients are by the hidden states and, for a trained head, by
// its weight.
Numeric HeadLoss(const Sizes& s, bool trained) {
  // The reference keeps all logits of a chunk on the CPU.
  const int64_t labels = std::min<int64_t>(s.tokens(), 512);
  return {.kernel = trained ? "trained head and cross-entropy, gradients"
                            : "head and cross-entropy, gradients",
          .shape = absl::StrCat(labels, " × ", s.width, " → ", s.vocabulary),
          .inputs = [=]() -> Tensors {
            const at::Tensor targets = Integers({labels}, s.vocabulary, 31);
            return {Normal({s.rows, s.length, s.width}, 32),
                    Normal({s.vocabulary, s.width}, 33, 0.05),
                    Integers({labels}, s.tokens(), 34),
                    targets.masked_fill(at::arange(labels) % 5 == 4,
                                        base::kIgnoreIndex)};
          },
          .function = WithGradients([=](const Tensors& t) -> Tensors {
            model::Linear head;
            head.weight = trained ? t[1] : t[1].detach();
            head.compute_in_input_dtype = true;
            return {model::SumCrossEntropy(t[0], head, {t[2], t[3], labels},
                                           /*chunk=*/200)};
          })};
}

Numeric ClassLoss(const Sizes& s, spec::ProblemType type) {
  constexpr int64_t kClassLabels = 5;
  const int64_t rows = s.rows * 16;
  const bool regression = type == spec::ProblemType::kRegression;
  const int64_t outputs = regression ? 1 : kClassLabels;
  return {.kernel = absl::StrCat("loss of ", std::string(spec::ToString(type)),
                                 ", gradients"),
          .shape = absl::StrCat(rows, " × ", outputs),
          .inputs = [=]() -> Tensors {
            const at::Tensor classes = Integers({rows}, kClassLabels, 35);
            at::Tensor targets = classes;
            if (type == spec::ProblemType::kMultiLabel) {
              targets = classes.unsqueeze(1) >= at::arange(kClassLabels);
            } else if (regression) {
              targets = classes.unsqueeze(1);
            }
            return {Normal({rows, outputs}, 36), targets};
          },
          .function = WithGradients([=](const Tensors& t) -> Tensors {
            const bool ids = type == spec::ProblemType::kSingleLabel;
            const at::Tensor weights =
                regression
                    ? at::Tensor()
                    : at::linspace(0.5, 2, kClassLabels).to(t[0].device());
            return {model::SumClassLoss(
                type, t[0], ids ? t[1] : t[1].to(at::kFloat), weights)};
          })};
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

namespace {

using attention::AttentionKernel;
using attention::AttentionMask;

enum class MaskKind { kCausal, kSegments, kWindow, kPadding };

const char* NameOf(MaskKind kind) {
  switch (kind) {
    case MaskKind::kCausal:
      return "causal";
    case MaskKind::kSegments:
      return "packed";
    case MaskKind::kWindow:
      return "windowed";
    case MaskKind::kPadding:
      return "padded";
  }
  return "";
}

Tensors MaskedInputs(const Sizes& s, MaskKind kind) {
  const int64_t kv = kind == MaskKind::kPadding ? s.heads : s.kv_heads;
  Tensors inputs = {Normal({s.rows, s.heads, s.length, s.head_dim}, 21),
                    Normal({s.rows, kv, s.length, s.head_dim}, 22),
                    Normal({s.rows, kv, s.length, s.head_dim}, 23)};
  if (kind == MaskKind::kSegments) {
    inputs.push_back(
        (at::arange(s.length) / 100).to(at::kLong).expand({s.rows, s.length}));
  }
  if (kind == MaskKind::kPadding) {
    inputs.push_back(s.length - at::arange(s.rows) * (s.length / 3));
  }
  return inputs;
}

Tensors MaskedAttention(const Tensors& t, MaskKind kind,
                        AttentionKernel kernel) {
  if (kind == MaskKind::kPadding) {
    const at::Tensor keys =
        attention::PaddingMask(t[3], t[0].size(2), t[0].scalar_type());
    return {
        attention::BidirectionalAttention(t[0], t[1], t[2], keys, 0, kernel)};
  }
  AttentionMask mask;
  if (kind == MaskKind::kSegments) mask.segments = t[3];
  if (kind == MaskKind::kWindow) mask.window = 33;
  return {attention::CausalAttention(t[0], t[1], t[2], mask, kernel)};
}

Numeric AttentionCheck(const Sizes& s, MaskKind kind, AttentionKernel kernel) {
  Numeric n;
  n.kernel = absl::StrCat(
      kernel == AttentionKernel::kTiled ? "tiled" : "the device's own",
      " attention, ", NameOf(kind), ", gradients");
  n.shape =
      absl::StrCat(s.rows, " × ", s.heads, " × ", s.length, " × ", s.head_dim);
  n.inputs = [=] { return MaskedInputs(s, kind); };
  const auto with = [=](AttentionKernel k) -> Function {
    return WithGradients(
        [=](const Tensors& t) { return MaskedAttention(t, kind, k); });
  };
  n.function = with(kernel);
  n.reference = with(AttentionKernel::kFused);
  return n;
}

}  // namespace

std::vector<Check> AttentionChecks(const Sizes& sizes, bool own) {
  // The CPU would take minutes for a whole micro-batch of a large model.
  Sizes s = sizes;
  s.length = std::min<int64_t>(s.length, 1024);
  std::vector<Check> checks;
  for (const MaskKind kind : {MaskKind::kCausal, MaskKind::kSegments,
                              MaskKind::kWindow, MaskKind::kPadding}) {
    AddBoth(AttentionCheck(s, kind, AttentionKernel::kTiled), checks);
    if (own) AddBoth(AttentionCheck(s, kind, AttentionKernel::kFused), checks);
  }
  return checks;
}

}  // namespace mpsd::selftest
