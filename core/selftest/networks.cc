// SPDX-License-Identifier: Apache-2.0
#include "core/selftest/networks.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/full/full_model.h"
#include "core/lora/lora.h"
#include "nlohmann/json.hpp"

namespace mpsd::selftest {
namespace {

constexpr int64_t kLayers = 2, kClasses = 3, kMaxVocabulary = 4096;
constexpr uint64_t kSeed = 17;

// A network that cannot be made is a fault of this file, and fails the check.
template <typename T>
T Value(absl::StatusOr<T> result) {
  TORCH_CHECK(result.ok(), result.status().ToString());
  return *std::move(result);
}

// Seeds only the CPU's generator; the device's own stays unchanged.
void SeedHost() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(kSeed);
}

at::Tensor ExactInBf16(const at::Tensor& t) {
  return t.to(at::kBFloat16).to(at::kFloat);
}

// Keeps drawn weights, but replaces norms and biases, which are drawn as 1 and
// 0.
void Settle(model::Network& network) {
  const at::NoGradGuard no_grad;
  uint64_t seed = 100;
  for (const model::NamedWeight& weight : network.NamedWeights()) {
    at::Tensor host = weight.tensor->cpu().to(at::kFloat);
    ++seed;
    if (host.dim() == 1) {
      const bool bias = absl::EndsWith(weight.name, "bias");
      host = Normal(host.sizes(), seed, bias ? 0.1 : 0.2) + (bias ? 0 : 1);
    }
    weight.tensor->copy_(ExactInBf16(host));
  }
}

model::WeightSource Source(const Place& place) {
  SeedHost();
  model::WeightSource source;
  source.device = place.device;
  source.dtype = place.dtype;
  return source;
}

nlohmann::json EncoderJson(const Sizes& s, const std::string& type,
                           double dropout) {
  const int64_t heads = s.width % s.heads == 0 ? s.heads : 1;
  return {{"model_type", type},
          {"hidden_size", s.width},
          {"intermediate_size", s.inner},
          {"num_hidden_layers", kLayers},
          {"num_attention_heads", heads},
          {"initializer_range", 1 / std::sqrt(s.width)},
          {"hidden_dropout_prob", dropout},
          {"attention_probs_dropout_prob", dropout}};
}

spec::ModelConfig Parsed(const nlohmann::json& json) {
  spec::ModelConfig config =
      Value(spec::ParseModelConfig(json.dump(), "self-test"));
  config.num_labels = kClasses;
  return config;
}

// The segments of a packed row, which do not see each other, and padding.
at::Tensor Segments(int64_t rows, int64_t length) {
  const at::Tensor at = at::arange(length);
  const at::Tensor segment =
      at::div(at, std::max<int64_t>(length / 3, 1), "floor")
          .masked_fill(at >= length - length / 8, -1);
  return segment.expand({rows, length}).contiguous();
}

// Each token's distance from the beginning of its segment.
at::Tensor PositionsIn(const std::vector<int64_t>& segment_lengths) {
  std::vector<at::Tensor> parts;
  for (const int64_t size : segment_lengths) parts.push_back(at::arange(size));
  return at::cat(parts);
}

}  // namespace

Place Place::On(const device::Device& device, at::ScalarType dtype) {
  return {device.torch_device(), dtype, device.traits()};
}

int64_t NetworkRows(const Sizes& sizes) {
  return std::min<int64_t>(sizes.rows, 2);
}

int64_t NetworkLength(const Sizes& sizes) {
  return std::clamp<int64_t>(sizes.length, 16, 512);
}

Sizes FewTokens(const Sizes& sizes) {
  constexpr int64_t kWidth = 256, kLength = 32;
  Sizes few = sizes.width <= kWidth ? sizes : Sizes{};
  few.length = std::min(few.length, kLength);
  return few;
}

spec::ModelConfig DecoderConfig(const Sizes& s, const DecoderParts& parts) {
  spec::ModelConfig config;
  config.model_type = "llama";
  config.vocab_size = std::min(s.vocabulary, kMaxVocabulary);
  config.hidden_size = s.width;
  config.intermediate_size = s.inner;
  config.num_hidden_layers = kLayers;
  config.num_attention_heads = s.heads;
  config.num_key_value_heads = s.kv_heads;
  config.head_dim = s.head_dim;
  config.max_position_embeddings = NetworkLength(s);
  config.initializer_range = 1 / std::sqrt(s.width);
  config.tie_word_embeddings = parts.tied;
  config.qkv_bias = config.o_bias = config.mlp_bias = parts.biases;
  config.qk_norm = parts.head_norms;
  if (parts.window) config.sliding_window = {NetworkLength(s) / 3, 0};
  config.num_labels = parts.class_labels;
  config.pad_token_id = 1;
  config.fused = parts.fused;
  if (parts.fused) config.partial_rotary_factor = 0.5;
  if (!parts.capped) return config;
  config.norms = {"input_layernorm", "post_attention_layernorm",
                  "pre_feedforward_layernorm", "post_feedforward_layernorm"};
  config.norms_add_one = true;
  config.hidden_act = "gelu_pytorch_tanh";
  config.attention_softcap = 50;
  config.logits_softcap = 30;
  config.embedding_scale = std::sqrt(s.width);
  config.rope = {spec::LayerRope::kLocal, spec::LayerRope::kMain};
  return config;
}

spec::ModelConfig EncoderConfig(const Sizes& s, const std::string& type,
                                double dropout) {
  nlohmann::json json = EncoderJson(s, type, dropout);
  json["vocab_size"] = std::min(s.vocabulary, kMaxVocabulary);
  json["max_position_embeddings"] = NetworkLength(s) + 2;
  json["type_vocab_size"] = type == "roberta" ? 1 : 2;
  json["classifier_dropout"] = dropout;
  json["pad_token_id"] = 1;
  if (type == "distilbert") {
    json["dim"] = json["hidden_size"];
    json["hidden_dim"] = json["intermediate_size"];
    json["n_layers"] = json["num_hidden_layers"];
    json["n_heads"] = json["num_attention_heads"];
    json["dropout"] = json["attention_dropout"] = dropout;
    json["seq_classif_dropout"] = dropout;
  }
  return Parsed(json);
}

spec::ModelConfig VisionConfig(const Sizes& s, double dropout) {
  nlohmann::json json = EncoderJson(s, "vit", dropout);
  json["image_size"] = 36;
  json["patch_size"] = 4;
  json["num_channels"] = 3;
  return Parsed(json);
}

std::unique_ptr<model::Decoder> DrawDecoder(const spec::ModelConfig& config,
                                            const Place& place) {
  auto decoder = Value(model::Decoder::Load(Source(place), config));
  Settle(*decoder);
  return decoder;
}

std::unique_ptr<model::Classifier> DrawClassifier(
    const spec::ModelConfig& config, const Place& place) {
  auto classifier = Value(model::Classifier::Load(Source(place), config));
  Settle(*classifier);
  return classifier;
}

void Quantize(model::Decoder& decoder, const quant::Options& options,
              at::Device device) {
  for (model::Linear* linear : decoder.Linears()) {
    if (linear->name == decoder.head().name) continue;
    linear->quantized =
        quant::Quantize(linear->weight.cpu().to(at::kFloat), options, device);
    linear->weight = at::Tensor();
  }
}

std::unique_ptr<optim::Trainable> HangAdapters(
    model::Network& network, const std::vector<std::string>& targets,
    const std::vector<std::string>& modules_to_save, double dropout,
    at::Device device) {
  spec::LoraSpec lora;
  lora.r = 8;
  lora.lora_alpha = 16;
  lora.lora_dropout = dropout;
  lora.modules_to_save = modules_to_save;
  if (targets.empty()) {
    lora.target_modules = spec::LoraSpec::AllLinear{};
  } else {
    lora.target_modules = targets;
  }
  SeedHost();
  auto adapter = Value(lora::Adapter::Attach(network, lora, device));
  const at::NoGradGuard no_grad;
  uint64_t seed = 1000;
  for (const auto& p : adapter->parameters().parameters()) {
    at::Tensor value = p.value;
    ++seed;
    if (absl::StrContains(p.name, "lora_A")) {
      value.copy_(ExactInBf16(
          Normal(value.sizes(), seed, 1 / std::sqrt(value.size(1)))));
    } else if (absl::StrContains(p.name, "lora_B")) {
      value.copy_(ExactInBf16(Normal(value.sizes(), seed, 0.1)));
    }
  }
  return adapter;
}

std::unique_ptr<optim::Trainable> TrainAllWeights(model::Network& network,
                                                  at::Device device) {
  return Value(full::FullModel::Attach(network, {}, device));
}

TextBatch MakeTexts(const Sizes& s, int64_t rows, int64_t vocabulary,
                    bool packed, at::Device device) {
  const int64_t length = NetworkLength(s), tokens = rows * length;
  const at::Tensor ids = Integers({rows, length}, vocabulary, 61 + rows);
  TextBatch batch;
  model::DecoderInputs& in = batch.inputs;
  at::Tensor positions = at::arange(length).expand({rows, length}).contiguous();
  if (packed) {
    const at::Tensor segments = Segments(rows, length);
    in.segment_lengths = attention::SegmentLengths(segments);
    in.segment_ids = segments.to(device);
    positions = PositionsIn(in.segment_lengths).view({rows, length});
  }
  in.input_ids = ids.to(device);
  in.position_ids = positions.to(device);
  // Two of three tokens have a target; the last tokens have none.
  const at::Tensor all = at::arange(tokens - 1);
  const at::Tensor picked = all.masked_select(all % 3 != 1);
  const int64_t count = picked.numel(), padding = 64 - count % 64;
  batch.labels.rows =
      at::cat({picked, at::zeros({padding}, at::kLong)}).to(device);
  batch.labels.targets = at::cat({ids.flatten().index_select(0, picked + 1),
                                  at::full({padding}, base::kIgnoreIndex)})
                             .to(device);
  batch.labels.count = count;
  return batch;
}

ClassBatch MakeClassBatch(const Sizes& s, const spec::ModelConfig& config,
                          bool padded, at::Device device) {
  const int64_t rows = NetworkRows(s), length = NetworkLength(s);
  ClassBatch batch;
  batch.classes = (at::arange(rows) % kClasses).to(device);
  model::ClassifierInputs& in = batch.inputs;
  if (config.family == spec::Family::kVision) {
    const int64_t size = config.vision.image_size;
    in.pixels =
        ExactInBf16(Normal({rows, config.vision.num_channels, size, size}, 71))
            .to(device);
    return batch;
  }
  at::Tensor ids = Integers({rows, length}, config.vocab_size - 2, 72) + 2;
  at::Tensor lengths = at::full({rows}, length, at::kLong);
  if (padded) {
    lengths = length - at::arange(rows) * (length / 3);
    ids = ids.masked_fill(at::arange(length) >= lengths.unsqueeze(1),
                          config.pad_token_id.value_or(1));
  }
  in.padded = padded;
  in.input_ids = ids.to(device);
  in.lengths = lengths.to(device);
  if (config.encoder.type_vocab_size > 1) {
    in.token_type_ids = Integers({rows, length}, 2, 73).to(device);
  }
  return batch;
}

Tensors GradientsOf(optim::Trainable& trainable) {
  Tensors gradients;
  for (const auto& p : trainable.parameters().parameters()) {
    gradients.push_back(p.value.grad().cpu());
  }
  return gradients;
}

namespace {

double Largest(const at::Tensor& t) {
  return t.numel() == 0 ? 0 : t.abs().max().item<double>();
}

// The largest magnitude of the gradients of each rank.
std::map<int64_t, double> LargestOf(const Tensors& tensors) {
  std::map<int64_t, double> largest;
  for (const at::Tensor& t : tensors) {
    largest[t.dim()] = std::max(largest[t.dim()], Largest(t));
  }
  return largest;
}

double WorstError(const Tensors& actual, const Tensors& expected,
                  at::ScalarType dtype) {
  if (actual.size() != expected.size()) {
    return std::numeric_limits<double>::infinity();
  }
  const std::map<int64_t, double> largest = LargestOf(expected);
  double worst = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    // A gradient that is negligible among others of its rank consists of
    // rounding: its error is relative to their magnitude.
    double error = RelativeError(actual[i], expected[i]);
    const double most = largest.at(expected[i].dim());
    const double own = std::max(Largest(expected[i]), 1e-30);
    if (own < kNothing * most) error *= own / most;
    if (dtype == at::kBFloat16 && expected[i].dim() == 1) {
      error /= kSumsInBfloat16;
    }
    worst = std::max(worst, error);
  }
  return worst;
}

}  // namespace

void AddNetwork(const NetworkTrial& trial, std::vector<Check>& checks) {
  const auto expected = std::make_shared<Tensors>();
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const bool narrow = dtype == at::kBFloat16;
    if (narrow && !trial.in_bf16) continue;
    Check check;
    check.kernel = trial.kernel;
    check.shape =
        absl::StrCat(trial.shape, narrow ? ", bfloat16" : ", float32");
    check.tolerance =
        narrow ? kNetworkBfloat16Tolerance : kNetworkFloatTolerance;
    check.error = [=, tolerance = check.tolerance](device::Device& device) {
      // The reference is the CPU's in fp32 for both dtypes, computed when the
      // first of the two checks runs.
      if (expected->empty()) *expected = trial.train(Place{}, true);
      const Place place = Place::On(device, dtype);
      double best = std::numeric_limits<double>::infinity();
      for (int i = 0; i < trial.attempts && best > tolerance; ++i) {
        device.Seed(static_cast<uint64_t>(i + 1));
        best = std::min(
            best, WorstError(trial.train(place, false), *expected, dtype));
      }
      return best;
    };
    checks.push_back(std::move(check));
  }
}

Sizes WithinWidth(const Sizes& sizes, int64_t width) {
  return sizes.width <= width ? sizes : Sizes{};
}

}  // namespace mpsd::selftest
