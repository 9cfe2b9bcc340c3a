// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/explicit_step/explicit_step.h"
#include "core/model/cache.h"
#include "core/model/losses.h"
#include "core/selftest/checks.h"
#include "core/selftest/networks.h"

// Trains decoders and classifiers of two layers on the device as jobs do, and
// compares losses, logits and every gradient with autograd on the CPU in fp32.
namespace mpsd::selftest {
namespace {

enum class Trained {
  kAdapters,          // on all linears
  kAdaptersWithHead,  // on q and on the head
  kModulesToSave,     // embedding and head are trained in addition to adapters
  kAllWeights,
};

struct DecoderCase {
  std::string name;
  bool by_autograd = false;
  Trained trained = Trained::kAdapters;
  DecoderParts parts = {};
  std::optional<quant::Options> quantized = std::nullopt;
  bool packed = false;
  double dropout = 0;
  spec::Recompute recompute = spec::Recompute::kNone;
};

std::unique_ptr<optim::Trainable> Attach(const DecoderCase& c,
                                         model::Decoder& decoder,
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
                          const std::vector<TextBatch>& batches,
                          const DecoderCase& c, const Place& place) {
  explicit_step::Options options;
  options.traits = place.traits;
  options.recompute = c.recompute;
  options.dtype = place.dtype;
  const auto step = explicit_step::ExplicitStep::Create(
      decoder, trainable.parameters(), options);
  TORCH_CHECK(step.ok(), step.status().ToString());
  at::Tensor loss =
      at::zeros({}, trainable.parameters().groups()[0].values.options());
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
Tensors TrainDecoder(const DecoderCase& c, const Sizes& s, const Place& place,
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

std::vector<DecoderCase> ExplicitCases() {
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
      {.name = "explicit step, fused linears, half of a head rotated",
       .parts = {.fused = true}},
      {.name = "explicit step, adapter on the head",
       .trained = Trained::kAdaptersWithHead},
      {.name = "explicit step, dropout", .dropout = kDropsNothing},
      {.name = "explicit step, NF4", .quantized = nf4},
      {.name = "explicit step, int8", .quantized = int8},
  };
}

std::vector<DecoderCase> AutogradCases() {
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

std::vector<DecoderCase> FullCases() {
  return {
      {.name = "all weights of a decoder",
       .trained = Trained::kAllWeights,
       .parts = {.head_norms = true, .biases = true}},
      {.name = "all weights of a decoder, norms of outputs and soft caps",
       .trained = Trained::kAllWeights,
       .parts = {.window = true, .capped = true}},
      {.name = "all weights of a decoder, tied, layers run again",
       .trained = Trained::kAllWeights,
       .parts = {.tied = true},
       .recompute = spec::Recompute::kFull},
  };
}

// The logits of the last tokens of left-padded rows, and whether the likeliest
// is as likely: as generation computes them, with a cache and a token at a time
// after the first, or (`reference`) all at once.
Tensors Continue(const DecoderParts& parts, const Sizes& s, const Place& place,
                 bool reference) {
  const at::NoGradGuard no_grad;
  const spec::ModelConfig config = DecoderConfig(s, parts);
  const auto decoder = DrawDecoder(config, place);
  decoder->set_options({attention::KernelFor(place.traits)});
  const int64_t rows = NetworkRows(s), length = NetworkLength(s);
  const at::Tensor ids =
      MakeTexts(s, rows, config.vocab_size, /*packed=*/false, place.device)
          .inputs.input_ids;
  const at::Tensor begins = at::arange(rows).remainder(4).to(place.device);
  const at::Tensor places =
      at::arange(length, ids.options()).unsqueeze(0) - begins.unsqueeze(1);
  const int64_t steps = std::min<int64_t>(length / 2, 8);
  model::KeyValueCache cache(config, begins, length, place.dtype);
  std::vector<at::Tensor> logits;
  for (int64_t at = 0; at < length;) {
    const int64_t tokens = at > 0 ? 1 : reference ? length : length - steps;
    const at::Tensor positions = places.narrow(1, at, tokens);
    model::DecoderInputs inputs;
    inputs.input_ids = ids.narrow(1, at, tokens).contiguous();
    inputs.position_ids = positions.clamp_min(0);
    if (at == 0) inputs.segment_ids = (positions >= 0).to(at::kLong);
    if (!reference) inputs.cache = &cache;
    logits.push_back(decoder->Logits(inputs));
    at += tokens;
  }
  const at::Tensor last =
      at::cat(logits, 1).narrow(1, length - steps, steps).to(at::kFloat);
  const at::Tensor likeliest = last.argmax(-1, /*keepdim=*/true).cpu();
  return {last.cpu(), last.cpu().gather(-1, likeliest)};
}

std::string ShapeOf(const Sizes& s) {
  return absl::StrCat(NetworkRows(s), " × ", NetworkLength(s), ", ", s.width,
                      " → ", s.inner, ", ", s.heads, " × ", s.head_dim);
}

void AddGeneration(const Sizes& sizes, std::vector<Check>& checks) {
  const std::pair<const char*, DecoderParts> cases[] = {
      {"generation, windowed, soft caps", {.window = true, .capped = true}},
      {"generation, norms of heads", {.head_norms = true, .biases = true}}};
  for (const auto& [name, parts] : cases) {
    NetworkTrial trial;
    trial.kernel = name;
    trial.shape = ShapeOf(sizes);
    trial.train = [parts, sizes](const Place& place, bool reference) {
      return Continue(parts, sizes, place, reference);
    };
    trial.in_bf16 = !parts.capped;
    AddNetwork(trial, checks);
  }
}

void Add(const std::vector<DecoderCase>& cases, const Sizes& sizes,
         std::vector<Check>& checks) {
  for (const DecoderCase& c : cases) {
    const Sizes s = c.dropout > 0 ? FewTokens(sizes) : sizes;
    NetworkTrial trial;
    trial.kernel = c.name;
    trial.shape = ShapeOf(s);
    trial.train = [c, s](const Place& place, bool reference) {
      return TrainDecoder(c, s, place, reference);
    };
    if (c.dropout > 0) trial.attempts = kDropoutAttempts;
    // Norms of outputs enlarge what bf16 rounds away.
    trial.in_bf16 = !c.parts.capped;
    AddNetwork(trial, checks);
  }
}

}  // namespace

std::vector<Check> DecoderChecks(const Sizes& sizes) {
  std::vector<Check> checks;
  Add(ExplicitCases(), sizes, checks);
  Add(AutogradCases(), sizes, checks);
  Add(FullCases(), WithinWidth(sizes, kMaxFullWidth), checks);
  AddGeneration(sizes, checks);
  return checks;
}

namespace {

struct ClassifierCase {
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
Tensors TrainClassifier(const ClassifierCase& c, const Sizes& s,
                        const Place& place, bool reference) {
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

std::vector<ClassifierCase> Cases() {
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
  for (const ClassifierCase& c : Cases()) {
    const Sizes s = c.dropout > 0 ? FewTokens(all) : all;
    NetworkTrial trial;
    trial.kernel = c.name;
    trial.shape = absl::StrCat(NetworkRows(s), " × ", NetworkLength(s), ", ",
                               s.width, " → ", s.inner);
    trial.train = [c, s](const Place& place, bool reference) {
      return TrainClassifier(c, s, place, reference);
    };
    if (c.dropout > 0) trial.attempts = kDropoutAttempts;
    trial.in_bf16 = c.in_bf16;
    AddNetwork(trial, checks);
  }
  return checks;
}

}  // namespace mpsd::selftest
