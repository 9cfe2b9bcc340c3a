// SPDX-License-Identifier: Apache-2.0
#include "core/model/vit.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/device/block_mark.h"
#include "core/model/weight_reader.h"
#include "core/spec/modules.h"

namespace mpsd::model {

at::Tensor Vit::Logits(const ClassifierInputs& inputs) const {
  const at::Tensor embedded = Embed(inputs.pixels);
  const Dropout dropout = HiddenDropout(embedded.size(0), embedded.size(1));
  at::Tensor x = embedded.flatten(0, 1);
  size_t index = 0;
  for (const EncoderLayer& layer : layers_) {
    // Only the first token continues after the last attention, unless an
    // adapter there draws dropout: its mask has the shape of all tokens.
    const bool first_only = &layer == &layers_.back() && !layer.o.draws() &&
                            !layer.up.draws() && !layer.down.draws();
    auto run = [this, &layer, dropout, first_only](const at::Tensor& in) {
      return RunLayer(layer, in, dropout, first_only);
    };
    x = RunBlock(index++, run, x, DrawsDropout(layer));
  }
  return Run(head_, norm_.Forward(First(x, dropout.rows)));
}

at::Tensor Vit::EmbedPatches(const at::Tensor& pixels) const {
  const spec::VisionConfig& v = config_.vision;
  const int64_t rows = pixels.size(0), p = v.patch_size;
  // The convolution's stride equals its kernel size: each patch is multiplied
  // by the weight once, so one product of flattened patches computes it.
  const int64_t across = v.image_size / p;
  const int64_t kept = across * p;  // a convolution drops a partial patch too
  const at::Tensor patches =
      pixels.to(dtype_)
          .slice(2, 0, kept)
          .slice(3, 0, kept)
          .reshape({rows, v.num_channels, across, p, across, p})
          .permute({0, 2, 4, 1, 3, 5})
          .reshape({rows, across * across, v.num_channels * p * p});
  return Run(patches_, patches);
}

at::Tensor Vit::Embed(const at::Tensor& pixels) const {
  const profile::BlockMark mark("mpsd::embedding");
  const spec::VisionConfig& v = config_.vision;
  const int64_t size = v.image_size;
  TORCH_CHECK(pixels.dim() == 4 && pixels.size(1) == v.num_channels &&
                  pixels.size(2) == size && pixels.size(3) == size,
              "images of ", pixels.sizes(), " where the model takes [rows, ",
              v.num_channels, ", ", size, ", ", size, "]");
  const at::Tensor patches = EmbedPatches(pixels);
  const at::Tensor first =
      class_token_.to(dtype_).expand({patches.size(0), 1, -1});
  const at::Tensor x = at::cat({first, patches}, 1) + positions_.to(dtype_);
  return at::dropout(x, config_.encoder.hidden_dropout_prob, training_);
}

at::Tensor Vit::RunLayer(const EncoderLayer& layer, const at::Tensor& x,
                         const Dropout& dropout, bool first_only) const {
  const at::Tensor in = first_only ? First(x, dropout.rows) : x;
  const at::Tensor attended = Run(
      layer.o,
      Attend(layer, layer.attention_norm.Forward(x), dropout.rows, first_only));
  const Normed n = layer.mlp_norm.OfSum(attended, in, dropout);
  const profile::BlockMark mark("mpsd::mlp");
  return dropout.Apply(Run(layer.down, RunActivated(layer.up, n.y)), n.sum)
      .first;
}

at::Tensor Vit::Attend(const EncoderLayer& layer, const at::Tensor& x,
                       int64_t rows, bool first_only) const {
  const profile::BlockMark mark("mpsd::attention");
  const double dropout =
      training_ ? config_.encoder.attention_probs_dropout_prob : 0;
  // With dropout all queries are computed, so that the masks have Transformers'
  // shape.
  const bool one_query = first_only && dropout == 0 && !layer.q.draws();
  std::vector<at::Tensor> heads =
      one_query ? RunHeads({&layer.q}, First(x, rows), rows)
                : RunHeads({&layer.q, &layer.k, &layer.v}, x, rows);
  if (one_query) {
    for (const at::Tensor& y : RunHeads({&layer.k, &layer.v}, x, rows)) {
      heads.push_back(y);
    }
  }
  const at::Tensor &q = heads[0], &k = heads[1], &v = heads[2];
  NoteAttention(
      attention::BidirectionalName(q, k, dropout, options_.attention));
  const at::Tensor out = attention::BidirectionalAttention(q, k, v, {}, dropout,
                                                           options_.attention);
  return first_only ? FirstQuery(out) : out;
}

std::vector<Linear*> Vit::Linears() {
  std::vector<Linear*> linears;
  for (EncoderLayer& l : layers_) {
    linears.insert(linears.end(), {&l.q, &l.k, &l.v, &l.o, &l.up, &l.down});
  }
  linears.push_back(&head_);
  return linears;
}

std::vector<NamedWeight> Vit::NamedWeights() {
  const std::string e = "vit.embeddings.";
  WeightList list;
  // Small: each step casts them.
  list.Add(e + "cls_token", class_token_, nullptr);
  list.Add(e + "position_embeddings", positions_, nullptr);
  list.Add(patches_);
  for (EncoderLayer& l : layers_) {
    for (Linear* linear : {&l.q, &l.k, &l.v, &l.o}) list.Add(*linear);
    list.Add(l.attention_norm);
    list.Add(l.mlp_norm);
    list.Add(l.up);
    list.Add(l.down);
  }
  list.Add(norm_);
  list.Add(head_);
  return list.Take();
}

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
    Linear& patches = model_->patches_;
    patches.name = e + "patch_embeddings.projection";
    patches.compute_in_input_dtype = true;
    const spec::VisionConfig& v = c_.vision;
    const int64_t width = c_.hidden_size;
    patches.weight =
        reader_.Tensor(patches.name + ".weight",
                       {width, v.num_channels, v.patch_size, v.patch_size});
    patches.bias =
        reader_.Tensor(patches.name + ".bias", {width}, Initial::kZero);
    model_->positions_ =
        reader_.Tensor(e + "position_embeddings", {1, v.patches() + 1, width},
                       Initial::kTruncatedNormal);
    model_->class_token_ = reader_.Tensor(e + "cls_token", {1, 1, width},
                                          Initial::kTruncatedNormal);
  }

  void LoadLayer(int64_t i, EncoderLayer& layer) {
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
