// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/model/vit.h"
#include "core/model/weight_reader.h"
#include "core/spec/modules.h"

namespace mpsd::model {

class VitLoader {
 public:
  VitLoader(const WeightSource& source, const spec::ModelConfig& config,
            const std::function<void(double)>& progress)
      : c_(config),
        progress_(progress),
        model_(new Vit(config, source.dtype)),
        reader_(source, "vit.", config.initializer_range) {}

  absl::StatusOr<std::unique_ptr<Classifier>> Load() {
    LoadEmbeddings();
    model_->layers_.resize(c_.num_hidden_layers);
    for (int64_t i = 0; i < c_.num_hidden_layers && reader_.status().ok();
         ++i) {
      LoadLayer(i, model_->layers_[i]);
      if (progress_) progress_(double(i + 1) / c_.num_hidden_layers);
    }
    model_->norm_ = Norm("vit.layernorm");
    model_->head_ =
        reader_.MakeHead("classifier", c_.num_labels, c_.hidden_size, true);
    if (!reader_.status().ok()) return reader_.status();
    model_->fresh_ = reader_.fresh_modules();
    model_->report_ = reader_.Report(c_.family);
    return std::move(model_);
  }

 private:
  // Drawn in Transformers' order: a module's submodules come before its own
  // weights.
  void LoadEmbeddings() {
    const std::string e = "vit.embeddings.";
    const std::string projection = e + "patch_embeddings.projection.";
    const spec::VisionConfig& v = c_.vision;
    const int64_t width = c_.hidden_size;
    model_->patch_weight_ =
        reader_.Tensor(projection + "weight",
                       {width, v.num_channels, v.patch_size, v.patch_size});
    model_->patch_bias_ =
        reader_.Tensor(projection + "bias", {width}, Initial::kZero);
    model_->positions_ =
        reader_.Tensor(e + "position_embeddings", {1, v.patches() + 1, width},
                       Initial::kTruncatedNormal);
    model_->class_token_ = reader_.Tensor(e + "cls_token", {1, 1, width},
                                          Initial::kTruncatedNormal);
  }

  void LoadLayer(int64_t i, VitLayer& layer) {
    const std::string p = absl::StrCat("vit.layers.", i, ".");
    const std::string a = p + "attention.";
    const int64_t width = c_.hidden_size, inner = c_.intermediate_size;
    layer.q = MakeLinear(a + "q_proj", width, width, c_.vision.qkv_bias);
    layer.k = MakeLinear(a + "k_proj", width, width, c_.vision.qkv_bias);
    layer.v = MakeLinear(a + "v_proj", width, width, c_.vision.qkv_bias);
    layer.o = MakeLinear(a + "o_proj", width, width, true);
    layer.attention_norm = Norm(p + "layernorm_before");
    layer.mlp_norm = Norm(p + "layernorm_after");
    layer.up = MakeLinear(p + "mlp.fc1", inner, width, true);
    layer.down = MakeLinear(p + "mlp.fc2", width, inner, true);
  }

  // The name of the weight in the file; `name` itself if the file has that.
  std::string NameInFile(const std::string& name) const {
    return reader_.Contains(name + ".weight") ? name
                                              : spec::StoredName(c_, name);
  }

  Linear MakeLinear(const std::string& name, int64_t out, int64_t in,
                    bool bias) {
    Linear linear = reader_.MakeLinear(NameInFile(name), out, in, bias);
    linear.name = name;
    return linear;
  }

  LayerNorm Norm(const std::string& name) {
    LayerNorm norm = reader_.MakeLayerNorm(NameInFile(name), c_.hidden_size,
                                           c_.encoder.layer_norm_eps);
    norm.name = name;
    return norm;
  }

  const spec::ModelConfig& c_;
  const std::function<void(double)>& progress_;
  std::unique_ptr<Vit> model_;
  WeightReader reader_;
};

absl::StatusOr<std::unique_ptr<Classifier>> LoadVisionClassifier(
    const WeightSource& source, const spec::ModelConfig& config,
    const std::function<void(double)>& progress) {
  return VitLoader(source, config, progress).Load();
}

}  // namespace mpsd::model
