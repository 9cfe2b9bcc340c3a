// SPDX-License-Identifier: Apache-2.0
#include "core/model/vit.h"

#include <ATen/ATen.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/spec/modules.h"
#include "gtest/gtest.h"
#include "tests/core/model/golden_vit.h"

namespace mpsd::model {
namespace {

constexpr double kTolerance = 1e-5;  // the issue's, relative L2 per tensor
constexpr uint64_t kSeed = 4321;     // of tests/golden/vit.py

using Tensors = std::map<std::string, at::Tensor>;

struct ForwardOptions {
  std::optional<uint64_t> dropout_seed;
  bool head_only = false;
  RunOptions options;
};

at::Tensor MeanLoss(const at::Tensor& logits, const at::Tensor& labels) {
  return labels.dim() == 1
             ? at::cross_entropy_loss(logits, labels)
             : at::binary_cross_entropy_with_logits(logits, labels);
}

// logits, loss, grad.NAME of the case's batch.
Tensors ForwardBackward(Classifier& model, const GoldenVit& golden,
                        const ForwardOptions& run = {}) {
  model.set_options(run.options);
  model.set_training(run.dropout_seed.has_value());
  for (const NamedWeight& weight : model.NamedWeights()) {
    weight.tensor->mutable_grad() = at::Tensor();
    weight.tensor->set_requires_grad(!run.head_only ||
                                     weight.name.rfind("classifier.", 0) == 0);
  }
  if (run.dropout_seed) Seed(*run.dropout_seed);
  ClassifierInputs inputs;
  inputs.pixels = golden["pixels"];
  const at::Tensor logits = model.Logits(inputs);
  const at::Tensor loss = MeanLoss(logits.to(at::kFloat), golden["labels"]);
  loss.backward();
  Tensors out = {{"logits", logits.detach()},
                 {"loss", loss.detach().reshape({1})}};
  for (const NamedWeight& weight : model.NamedWeights()) {
    if (!weight.tensor->grad().defined()) continue;
    out["grad." + spec::StoredName(model.config(), weight.name)] =
        weight.tensor->grad().clone();
  }
  return out;
}

// Of a key's bias the gradient is rounding: it shifts all scores alike.
bool IsNoise(const std::string& name) { return name.ends_with(".key.bias"); }

void ExpectSame(const Tensors& ours, const Tensors& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (const auto& [name, value] : theirs) {
    ASSERT_TRUE(ours.contains(name)) << name;
    if (IsNoise(name)) {
      EXPECT_LT(ours.at(name).abs().max().item<float>(), 1e-6) << name;
    } else {
      EXPECT_LE(RelativeError(ours.at(name), value), kTolerance) << name;
    }
  }
}

// What Transformers says, the names behind "<run>.".
Tensors Theirs(const GoldenVit& golden, const std::string& run) {
  Tensors tensors;
  for (const auto& [name, entry] : golden.file().entries()) {
    const std::string rest =
        name.rfind(run + ".", 0) == 0 ? name.substr(run.size() + 1) : "";
    if (rest == "logits" || rest == "loss" || rest.rfind("grad.", 0) == 0) {
      tensors[rest] = golden[name];
    }
  }
  return tensors;
}

class VitCase : public testing::TestWithParam<const char*> {
 protected:
  VitCase() : golden_(GetParam()), model_(LoadVit(GetParam())) {}
  GoldenVit golden_;
  std::unique_ptr<Classifier> model_;
};

TEST_P(VitCase, LogitsLossAndEveryGradientAreThoseOfTransformers) {
  const Tensors theirs = Theirs(golden_, "full");
  EXPECT_EQ(theirs.size(), model_->NamedWeights().size() + 2);
  ExpectSame(ForwardBackward(*model_, golden_), theirs);
}

TEST_P(VitCase, TheHeadAloneHasTheSameGradients) {
  Tensors theirs = Theirs(golden_, "full");
  std::erase_if(theirs, [](const auto& item) {
    return item.first.rfind("grad.", 0) == 0 &&
           item.first.rfind("grad.classifier.", 0) != 0;
  });
  ASSERT_EQ(theirs.size(), 4u);
  ForwardOptions run;
  run.head_only = true;
  ExpectSame(ForwardBackward(*model_, golden_, run), theirs);
}

TEST_P(VitCase, DropoutDrawsTheMasksOfTransformers) {
  ForwardOptions run;
  run.dropout_seed = kSeed;
  ExpectSame(ForwardBackward(*model_, golden_, run),
             Theirs(golden_, "full_dropout"));
}

TEST_P(VitCase, CheckpointingAndTilesChangeNothing) {
  for (const std::optional<uint64_t> seed :
       {std::optional<uint64_t>(), std::optional<uint64_t>(7)}) {
    ForwardOptions plain;
    plain.dropout_seed = seed;
    const Tensors expected = ForwardBackward(*model_, golden_, plain);
    ForwardOptions checkpointed = plain;
    checkpointed.options.recompute = spec::Recompute::kFull;
    ExpectSame(ForwardBackward(*model_, golden_, checkpointed), expected);
    if (seed) continue;  // masks are another kernel's own
    ForwardOptions tiled = plain;
    tiled.options.attention = attention::AttentionKernel::kTiled;
    ExpectSame(ForwardBackward(*model_, golden_, tiled), expected);
  }
}

TEST_P(VitCase, BfloatIsNearAndKeepsItsDtype) {
  const auto half = LoadVit(GetParam(), at::kBFloat16);
  ClassifierInputs inputs;
  inputs.pixels = golden_["pixels"];
  const at::Tensor logits = half->Logits(inputs);
  EXPECT_EQ(logits.scalar_type(), at::kBFloat16);
  EXPECT_LT(RelativeError(logits, golden_["full.logits"]), 0.05);
}

TEST_P(VitCase, ListsItsWeightsAsSpecModulesDoes) {
  using Kind = spec::Module::Kind;
  std::vector<std::string> names, linears;
  for (const spec::Module& module : spec::Modules(model_->config())) {
    const bool bare = module.kind == Kind::kParameter;
    names.push_back(module.name + (bare ? "" : ".weight"));
    if (module.bias) names.push_back(module.name + ".bias");
    if (module.kind == Kind::kLinear) linears.push_back(module.name);
  }
  std::vector<std::string> ours, our_linears;
  for (const auto& weight : model_->NamedWeights()) ours.push_back(weight.name);
  for (const Linear* linear : model_->Linears()) {
    our_linears.push_back(linear->name);
  }
  EXPECT_EQ(ours, names);
  EXPECT_EQ(our_linears, linears);
}

TEST_P(VitCase, RefusesImagesOfAnotherSize) {
  const at::Tensor pixels = golden_["pixels"];
  ClassifierInputs inputs;
  inputs.pixels = at::constant_pad_nd(pixels, {0, 1});
  EXPECT_THROW(model_->Logits(inputs), c10::Error);
  inputs.pixels = at::cat({pixels, pixels}, 1);
  EXPECT_THROW(model_->Logits(inputs), c10::Error);
}

INSTANTIATE_TEST_SUITE_P(Cases, VitCase, testing::Values("vit", "vit_grey"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

}  // namespace
}  // namespace mpsd::model
