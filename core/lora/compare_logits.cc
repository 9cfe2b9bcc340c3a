// SPDX-License-Identifier: Apache-2.0
#include "core/lora/compare_logits.h"

#include <ATen/ATen.h>

#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/lora/lora.h"
#include "core/model/classifier.h"
#include "core/model/decoder.h"

namespace mpsd::merge {
namespace {

constexpr int64_t kRows = 2, kTokens = 16;

// A network of either kind, in fp32 on the CPU.
struct Loaded {
  std::unique_ptr<model::Decoder> decoder;
  std::unique_ptr<model::Classifier> classifier;
  model::Network& network() const {
    return decoder ? static_cast<model::Network&>(*decoder) : *classifier;
  }
};

// Attaches the adapter of `adapted` to the linears that the network has.
class HungAdapter {
 public:
  static absl::StatusOr<HungAdapter> Hang(const AdaptedModel& adapted,
                                          model::Network& network) {
    std::map<std::string, model::Linear*> linears;
    for (model::Linear* l : network.Linears()) linears[l->name] = l;
    for (const spec::TargetMatch& target : adapted.targets()) {
      const auto linear = linears.find(target.name);
      if (linear == linears.end()) continue;  // its layer was omitted
      ASSIGN_OR_RETURN(auto change, adapted.WeightChange(target));
      linear->second->adapter = std::make_unique<lora::LoraLinear>(
          change.a, change.b, change.scaling, 0.0, &kTraining);
    }
    for (const model::NamedWeight& weight : network.NamedWeights()) {
      if (adapted.FindSaved(weight.name) == nullptr) continue;
      ASSIGN_OR_RETURN(auto saved, adapted.LoadSaved(weight.name, at::kFloat));
      *weight.tensor = std::move(saved);
    }
    return HungAdapter();
  }

 private:
  static constexpr bool kTraining = false;
};

absl::StatusOr<Loaded> Load(const tensorfile::Weights& weights,
                            const spec::ModelConfig& config) {
  const model::WeightSource source{&weights, at::kCPU, at::kFloat,
                                   /*ignore_mismatched_heads=*/true};
  Loaded loaded;
  if (config.num_labels > 0) {
    ASSIGN_OR_RETURN(auto classifier, model::Classifier::Load(source, config));
    loaded.classifier = std::move(classifier);
  } else {
    ASSIGN_OR_RETURN(auto decoder, model::Decoder::Load(source, config));
    loaded.decoder = std::move(decoder);
  }
  return loaded;
}

at::Tensor Logits(const Loaded& loaded, const spec::ModelConfig& config) {
  if (config.family == spec::Family::kVision) {
    const auto& v = config.vision;
    model::ClassifierInputs images;
    // Both networks get the same rows.
    images.pixels =
        at::arange(kRows * v.num_channels * v.image_size * v.image_size,
                   at::kFloat)
            .sin()
            .view({kRows, v.num_channels, v.image_size, v.image_size});
    return loaded.classifier->Logits(images);
  }
  const int64_t length = std::min(
      kTokens, config.max_position_embeddings - config.encoder.first_position);
  const at::Tensor ids = at::arange(kRows * length)
                             .mul_(7919)
                             .remainder_(config.vocab_size)
                             .view({kRows, length});
  if (loaded.decoder) {
    const at::Tensor positions = at::arange(length).expand({kRows, length});
    model::DecoderInputs inputs;
    inputs.input_ids = ids;
    inputs.position_ids = positions.contiguous();
    return loaded.decoder->Logits(inputs);
  }
  model::ClassifierInputs texts;
  texts.input_ids = ids;
  texts.lengths = at::full({kRows}, length, at::kLong);
  texts.padded = false;
  return loaded.classifier->Logits(texts);
}

// The number of layers that fit, at least one.
int64_t LayersWithin(const spec::ModelConfig& config, int64_t max_bytes) {
  spec::ModelConfig part = config;
  for (part.num_hidden_layers = config.num_hidden_layers;
       part.num_hidden_layers > 1; --part.num_hidden_layers) {
    if (spec::ParameterCount(part) <= max_bytes / 4) break;
  }
  return part.num_hidden_layers;
}

absl::StatusOr<at::Tensor> ReferenceLogits(const AdaptedModel& adapted,
                                           const spec::ModelConfig& config) {
  ASSIGN_OR_RETURN(auto loaded, Load(adapted.weights(), config));
  ASSIGN_OR_RETURN([[maybe_unused]] auto hung,
                   HungAdapter::Hang(adapted, loaded.network()));
  return Logits(loaded, config);
}

absl::StatusOr<at::Tensor> MergedLogits(const std::filesystem::path& folder,
                                        const spec::ModelConfig& config) {
  ASSIGN_OR_RETURN(auto weights, tensorfile::Weights::Open(folder));
  ASSIGN_OR_RETURN(auto loaded, Load(*weights, config));
  return Logits(loaded, config);
}

}  // namespace

double RoundingOf(at::ScalarType dtype) {
  if (dtype == at::kBFloat16) return 1.0 / 256;
  if (dtype == at::kHalf) return 1.0 / 2048;
  return 1e-7;
}

absl::StatusOr<Comparison> CompareLogits(const AdaptedModel& adapted,
                                         const std::filesystem::path& folder,
                                         at::ScalarType dtype,
                                         int64_t max_bytes) {
  spec::ModelConfig config = adapted.config();
  config.num_hidden_layers = LayersWithin(config, max_bytes);
  ASSIGN_OR_RETURN(auto reference, ReferenceLogits(adapted, config));
  ASSIGN_OR_RETURN(auto merged, MergedLogits(folder, config));
  Comparison comparison{config.num_hidden_layers};
  comparison.error =
      ((merged - reference).norm() / reference.norm()).item<double>();
  // The layers' errors have random directions: their sum grows with the square
  // root of the number of layers.
  const double layers = static_cast<double>(config.num_hidden_layers);
  const double limit = 4 * RoundingOf(dtype) * std::sqrt(layers) + 1e-4;
  if (comparison.error <= limit) return comparison;
  return absl::DataLossError(absl::StrCat(
      "the merged model's logits are ", comparison.error,
      " away from those of base and adapter, relative; rounding explains ",
      limit));
}

}  // namespace mpsd::merge
