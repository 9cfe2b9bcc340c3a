// SPDX-License-Identifier: Apache-2.0
// Trains classifiers of two layers on the device as jobs do, and compares
// losses, logits and every gradient with the CPU in fp32.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/model/class_loss.h"
#include "core/selftest/checks.h"
#include "core/selftest/network_check.h"
#include "core/selftest/networks.h"

namespace mpsd::selftest {
namespace {

struct Case {
  std::string name;
  // The network's own dropout; a decoder has none.
  std::function<spec::ModelConfig(const Sizes&, double)> config;
  bool adapters = false;  // false: all weights are trained
  bool padded = false;
  double dropout = 0;
  spec::Recompute recompute = spec::Recompute::kNone;
  bool in_bf16 = true;
};

at::Tensor Loss(const at::Tensor& logits, const ClassBatch& batch) {
  return model::SumClassLoss(spec::ProblemType::kSingleLabel, logits,
                             batch.classes, {});
}

// The losses and logits of a step and of an evaluation, and every gradient.
Tensors Train(const Case& c, const Sizes& s, const Place& place,
              bool reference) {
  const spec::ModelConfig config = c.config(s, reference ? 0 : c.dropout);
  const auto network = DrawClassifier(config, place);
  const auto trainable =
      c.adapters ? HangAdapters(*network, /*targets=*/{},
                                /*modules_to_save=*/{},
                                reference ? 0 : c.dropout, place.device)
                 : TrainAllWeights(*network, place.device);
  network->set_options({attention::KernelFor(place.traits), c.recompute});
  const ClassBatch batch = MakeClassBatch(s, config, c.padded, place.device);
  at::AutoGradMode grad(true);
  trainable->set_training(true);
  network->set_training(true);
  trainable->parameters().ZeroGradients();
  const at::Tensor logits = network->Logits(batch.inputs);
  const at::Tensor loss = Loss(logits, batch);
  (loss * 0.5).backward();
  Tensors results = GradientsOf(*trainable);
  const at::NoGradGuard no_grad;
  trainable->set_training(false);
  network->set_training(false);
  const at::Tensor evaluated = network->Logits(batch.inputs);
  for (const at::Tensor& t :
       {logits, loss, evaluated, Loss(evaluated, batch)}) {
    results.push_back(t.detach().to(at::kFloat).cpu());
  }
  return results;
}

std::function<spec::ModelConfig(const Sizes&, double)> Encoder(
    const std::string& type) {
  return [type](const Sizes& s, double dropout) {
    return EncoderConfig(s, type, dropout);
  };
}

spec::ModelConfig Decoder(const Sizes& s, double) {
  return DecoderConfig(s, {.head_norms = true, .class_labels = 3});
}

std::vector<Case> Cases() {
  return {
      {.name = "BERT, adapters",
       .config = Encoder("bert"),
       .adapters = true,
       .padded = true,
       .dropout = kDropsNothing,
       .recompute = spec::Recompute::kFull},
      {.name = "BERT, all weights", .config = Encoder("bert"), .padded = true},
      {.name = "RoBERTa, all weights",
       .config = Encoder("roberta"),
       .padded = true,
       .dropout = kDropsNothing},
      // DistilBERT's head has a relu.
      {.name = "DistilBERT, all weights",
       .config = Encoder("distilbert"),
       .in_bf16 = false},
      {.name = "ViT, adapters",
       .config = VisionConfig,
       .adapters = true,
       .dropout = kDropsNothing},
      {.name = "ViT, all weights", .config = VisionConfig},
      {.name = "decoder with classes, adapters",
       .config = Decoder,
       .adapters = true,
       .padded = true},
      {.name = "decoder with classes, all weights",
       .config = Decoder,
       .padded = true},
  };
}

}  // namespace

std::vector<Check> ClassifierChecks(const Sizes& sizes) {
  const Sizes all = WithinWidth(sizes, kMaxFullWidth);
  std::vector<Check> checks;
  for (const Case& c : Cases()) {
    const Sizes s = c.dropout > 0 ? FewTokens(all) : all;
    NetworkTrial trial;
    trial.kernel = c.name;
    trial.shape = absl::StrCat(NetworkRows(s), " × ", NetworkLength(s), ", ",
                               s.width, " → ", s.inner);
    trial.train = [c, s](const Place& place, bool reference) {
      return Train(c, s, place, reference);
    };
    if (c.dropout > 0) trial.attempts = kDropoutAttempts;
    trial.in_bf16 = c.in_bf16;
    AddNetwork(trial, checks);
  }
  return checks;
}

}  // namespace mpsd::selftest
