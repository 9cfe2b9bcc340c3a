// SPDX-License-Identifier: Apache-2.0
// Trains decoders of two layers on the device as jobs do, and compares losses
// and every gradient with autograd on the CPU in fp32.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/explicit_step/explicit_step.h"
#include "core/selftest/checks.h"
#include "core/selftest/network_check.h"
#include "core/selftest/networks.h"

namespace mpsd::selftest {
namespace {

enum class Trained {
  kAdapters,          // on all linears
  kAdaptersWithHead,  // on q and on the head
  kModulesToSave,     // embedding and head are trained in addition to adapters
  kAllWeights,
};

struct Case {
  std::string name;
  bool by_autograd = false;
  Trained trained = Trained::kAdapters;
  DecoderParts parts = {};
  std::optional<quant::Options> quantized = std::nullopt;
  bool packed = false;
  double dropout = 0;
  spec::Recompute recompute = spec::Recompute::kNone;
};

std::unique_ptr<optim::Trainable> Attach(const Case& c, model::Decoder& decoder,
                                         at::Device device) {
  switch (c.trained) {
    case Trained::kAllWeights:
      return TrainAllWeights(decoder, device);
    case Trained::kAdaptersWithHead:
      return HangAdapters(decoder, /*targets=*/{"q_proj", "lm_head"},
                          /*modules_to_save=*/{}, c.dropout, device);
    case Trained::kModulesToSave:
      return HangAdapters(decoder, /*targets=*/{},
                          /*modules_to_save=*/{"embed_tokens", "lm_head"},
                          c.dropout, device);
    case Trained::kAdapters:
      break;
  }
  return HangAdapters(decoder, /*targets=*/{}, /*modules_to_save=*/{},
                      c.dropout, device);
}

// Returns the sums of losses; leaves the gradients in the parameters.
at::Tensor ByAutograd(model::Decoder& decoder, optim::Trainable& trainable,
                      const std::vector<TextBatch>& batches) {
  trainable.parameters().ZeroGradients();
  at::Tensor loss =
      at::zeros({}, trainable.parameters().groups()[0].values.options());
  for (const TextBatch& batch : batches) {
    const double scale = 1.0 / batch.labels.count;
    const at::Tensor sum = model::SumCrossEntropy(decoder.Hidden(batch.inputs),
                                                  decoder.head(), batch.labels);
    (sum * scale).backward();
    loss.add_(sum.detach() * scale);
  }
  return loss;
}

at::Tensor ByExplicitStep(const model::Decoder& decoder,
                          optim::Trainable& trainable,
                          const std::vector<TextBatch>& batches, const Case& c,
                          const Place& place) {
  std::vector<at::Tensor> trained;
  for (const auto& p : trainable.parameters().parameters()) {
    trained.push_back(p.value);
  }
  explicit_step::Options options;
  options.traits = place.traits;
  options.recompute = c.recompute;
  options.dtype = place.dtype;
  const auto step =
      explicit_step::ExplicitStep::Create(decoder, trained, options);
  TORCH_CHECK(step.ok(), step.status().ToString());
  at::Tensor loss = at::zeros({}, trained[0].options());
  (*step)->Begin();
  for (const TextBatch& batch : batches) {
    const double scale = 1.0 / batch.labels.count;
    loss.add_((*step)->Add(batch.inputs, batch.labels, scale).mul_(scale));
  }
  (*step)->End();
  return loss;
}

// The loss as an evaluation computes it.
at::Tensor Evaluated(model::Decoder& decoder, optim::Trainable& trainable,
                     const TextBatch& batch) {
  const at::NoGradGuard no_grad;
  trainable.set_training(false);
  decoder.set_training(false);
  return model::SumCrossEntropy(decoder.Hidden(batch.inputs), decoder.head(),
                                batch.labels) /
         batch.labels.count;
}

// The losses of a step and of an evaluation, and every gradient of the step.
Tensors Train(const Case& c, const Sizes& s, const Place& place,
              bool reference) {
  const spec::ModelConfig config = DecoderConfig(s, c.parts);
  const auto decoder = DrawDecoder(config, place);
  if (c.quantized) Quantize(*decoder, *c.quantized, place.device);
  const auto trainable = Attach(c, *decoder, place.device);
  decoder->set_options({attention::KernelFor(place.traits), c.recompute});
  std::vector<TextBatch> batches;
  // Both several rows and one row, since their layouts in memory differ.
  for (const int64_t rows : {NetworkRows(s), int64_t{1}}) {
    batches.push_back(
        MakeTexts(s, rows, config.vocab_size, c.packed, place.device));
  }
  trainable->set_training(!reference);
  decoder->set_training(!reference);
  at::AutoGradMode grad(true);
  const at::Tensor loss =
      reference || c.by_autograd
          ? ByAutograd(*decoder, *trainable, batches)
          : ByExplicitStep(*decoder, *trainable, batches, c, place);
  Tensors results = GradientsOf(*trainable);
  results.push_back(loss.cpu());
  results.push_back(Evaluated(*decoder, *trainable, batches[0]).cpu());
  return results;
}

std::vector<Case> ExplicitCases() {
  const quant::Options nf4{quant::Format::kNf4, true};
  const quant::Options int8{quant::Format::kInt8};
  return {
      {.name = "explicit step"},
      {.name = "explicit step, packed", .packed = true},
      {.name = "explicit step, windowed", .parts = {.window = true}},
      {.name = "explicit step, packed and windowed, layers run again",
       .parts = {.window = true},
       .packed = true,
       .recompute = spec::Recompute::kFull},
      {.name = "explicit step, biases and norms of heads",
       .parts = {.head_norms = true, .biases = true, .tied = true},
       .recompute = spec::Recompute::kSelective},
      {.name = "explicit step, adapter on the head",
       .trained = Trained::kAdaptersWithHead},
      {.name = "explicit step, dropout", .dropout = kDropsNothing},
      {.name = "explicit step, NF4", .quantized = nf4},
      {.name = "explicit step, int8", .quantized = int8},
  };
}

std::vector<Case> AutogradCases() {
  const quant::Options nf4{quant::Format::kNf4, false};
  return {
      {.name = "adapters by autograd, dropout, layers run again",
       .by_autograd = true,
       .trained = Trained::kAdaptersWithHead,
       .dropout = kDropsNothing,
       .recompute = spec::Recompute::kFull},
      {.name = "adapters by autograd, packed and windowed, NF4",
       .by_autograd = true,
       .parts = {.window = true},
       .quantized = nf4,
       .packed = true},
      {.name = "modules_to_save",
       .by_autograd = true,
       .trained = Trained::kModulesToSave,
       .parts = {.biases = true}},
  };
}

std::vector<Case> FullCases() {
  return {
      {.name = "all weights of a decoder",
       .by_autograd = true,
       .trained = Trained::kAllWeights,
       .parts = {.head_norms = true, .biases = true}},
      {.name = "all weights of a decoder, tied, layers run again",
       .by_autograd = true,
       .trained = Trained::kAllWeights,
       .parts = {.tied = true},
       .recompute = spec::Recompute::kFull},
  };
}

void Add(const std::vector<Case>& cases, const Sizes& sizes,
         std::vector<Check>& checks) {
  for (const Case& c : cases) {
    const Sizes s = c.dropout > 0 ? FewTokens(sizes) : sizes;
    NetworkTrial trial;
    trial.kernel = c.name;
    trial.shape =
        absl::StrCat(NetworkRows(s), " × ", NetworkLength(s), ", ", s.width,
                     " → ", s.inner, ", ", s.heads, " × ", s.head_dim);
    trial.train = [c, s](const Place& place, bool reference) {
      return Train(c, s, place, reference);
    };
    if (c.dropout > 0) trial.attempts = kDropoutAttempts;
    AddNetwork(trial, checks);
  }
}

}  // namespace

std::vector<Check> DecoderChecks(const Sizes& sizes) {
  std::vector<Check> checks;
  Add(ExplicitCases(), sizes, checks);
  Add(AutogradCases(), sizes, checks);
  Add(FullCases(), WithinWidth(sizes, kMaxFullWidth), checks);
  return checks;
}

}  // namespace mpsd::selftest
