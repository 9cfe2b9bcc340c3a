// SPDX-License-Identifier: Apache-2.0
#include "core/spec/model_config.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>

#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/spec/fields.h"
#include "core/spec/json_node.h"
#include "core/spec/modules.h"

namespace mpsd::spec {
namespace {

using Kind = JsonNode::Kind;

// The allowed range of a width, a vocabulary, a number of heads, positions or
// blocks.
Range SizeRange() { return Range::Between(1, limits::kModelSize); }
Range LayerRange() { return Range::Between(1, limits::kModelLayers); }

const JsonNode* Value(const JsonNode& root, std::string_view name) {
  const JsonNode* node = root.Find(name);
  return node == nullptr || node->kind == Kind::kNull ? nullptr : node;
}

// id2label: {"0": "name", …}, every id from 0 once.
void ReadLabelNames(FieldReader& fields, const JsonNode& id2label,
                    HeadConfig& head) {
  std::vector<std::string> names(id2label.members.size());
  std::vector<bool> given(names.size());
  bool usual = true;  // the names that Transformers generates
  for (const JsonNode& member : id2label.members) {
    size_t id = names.size();
    const char* end = member.name.data() + member.name.size();
    std::from_chars(member.name.data(), end, id);
    if (id >= names.size() || given[id] || member.kind != Kind::kString) {
      fields.Fault(
          "id2label",
          base::Cat("expected a name for each id from 0 to ", names.size() - 1,
                    ", found \"", base::Quotable(member.name), "\""));
      return;
    }
    given[id] = true;
    names[id] = member.text;
    usual = usual && member.text == base::Cat("LABEL_", id);
  }
  head.num_labels = static_cast<int64_t>(names.size());
  if (!usual) head.label_names = std::move(names);
}

// What the readers of all families share. Both collect faults of fields and
// return at once for a network that mpsd does not have.
class ConfigReader {
 public:
  ConfigReader(const JsonNode& root, std::string_view origin)
      : root_(root), origin_(origin), fields_(&root, "", findings_) {}

 protected:
  absl::Status Unimplemented(std::string_view field, std::string_view message) {
    return absl::UnimplementedError(base::Cat(
        origin_, ":", fields_.LineOf(field), ": ", field, ": ", message));
  }

  bool HasValue(std::string_view name) const {
    return Value(root_, name) != nullptr;
  }

  void Size(std::string_view name, int64_t& value, Range range = SizeRange()) {
    if (!HasValue(name)) {
      return fields_.Fault(
          name, base::Cat("missing; expected an integer", range.Text()));
    }
    fields_.Integer(name, value, range);
  }

  // architectures, dtype, labels, pad_token_id, initializer_range.
  void ReadCommon() {
    constexpr std::string_view kDtype = "the name of a dtype";
    fields_.Text("torch_dtype", config_.torch_dtype, kDtype);
    fields_.Text("dtype", config_.torch_dtype, kDtype);
    if (HasValue("architectures")) {
      fields_.Texts("architectures", config_.architectures,
                    "a list of class names");
    }
    fields_.Integer("pad_token_id", config_.pad_token_id,
                    Range::Between(-1, limits::kModelSize));
    if (config_.pad_token_id == -1) config_.pad_token_id.reset();
    fields_.Number("initializer_range", config_.initializer_range,
                   Range::AtLeast(0));
    fields_.Integer("num_labels", config_.head.num_labels, SizeRange());
    const JsonNode* names = Value(root_, "id2label");
    if (names != nullptr && names->kind == Kind::kObject) {
      ReadLabelNames(fields_, *names, config_.head);
    }
    if (HasValue("problem_type")) {
      fields_.Text("problem_type", config_.head.problem_type,
                   "a problem type of Transformers");
    }
  }

  const JsonNode& root_;
  const std::string_view origin_;
  Findings findings_;
  FieldReader fields_;
  ModelConfig config_;
};

// --- text encoders and vision transformers -----------------------------------

// The family's names for fields that every family has.
struct KeyNames {
  std::string_view hidden_size = "hidden_size";
  std::string_view intermediate_size = "intermediate_size";
  std::string_view layers = "num_hidden_layers";
  std::string_view heads = "num_attention_heads";
  std::string_view act = "hidden_act";
  std::string_view dropout = "hidden_dropout_prob";
  std::string_view attention_dropout = "attention_probs_dropout_prob";
};
constexpr KeyNames kDistilBert = {.hidden_size = "dim",
                                  .intermediate_size = "hidden_dim",
                                  .layers = "n_layers",
                                  .heads = "n_heads",
                                  .act = "activation",
                                  .dropout = "dropout",
                                  .attention_dropout = "attention_dropout"};

// Model types by the network that they have, which is the prefix of the names
// of its weights.
constexpr std::pair<std::string_view, std::string_view> kEncoderTypes[] = {
    {"vit", "vit"},
    {"bert", "bert"},
    {"distilbert", "distilbert"},
    {"roberta", "roberta"},
    {"xlm-roberta", "roberta"},
    {"camembert", "roberta"},
    {"electra", "electra"}};

// The network of a model type; "" for a decoder.
std::string_view EncoderNetwork(std::string_view model_type) {
  for (const auto& [type, network] : kEncoderTypes) {
    if (type == model_type) return network;
  }
  return "";
}

// config.json of encoders and vision transformers; defaults of their config
// classes (transformers 5.23, models/*/configuration_*.py).
class EncoderReader : ConfigReader {
 public:
  using ConfigReader::ConfigReader;

  absl::StatusOr<ModelConfig> Read() {
    fields_.Text("model_type", config_.model_type, "the name of a model type");
    config_.family =
        config_.model_type == "vit" ? Family::kVision : Family::kEncoder;
    config_.encoder.network = EncoderNetwork(config_.model_type);
    if (config_.model_type == "distilbert") names_ = kDistilBert;
    ReadSizes();
    ReadDropout();
    ReadCommon();
    if (config_.family == Family::kVision) {
      ReadVision();
    } else {
      ReadText();
    }
    RETURN_IF_ERROR(CheckOptions());
    if (findings_.empty() &&
        config_.hidden_size % config_.num_attention_heads != 0) {
      fields_.Fault(names_.heads,
                    base::Cat("expected a divisor of ", names_.hidden_size,
                              " (", config_.hidden_size, "), found ",
                              config_.num_attention_heads));
    }
    if (!findings_.empty()) return findings_.ToStatus(origin_);
    config_.num_key_value_heads = config_.num_attention_heads;
    config_.head_dim = config_.hidden_size / config_.num_attention_heads;
    return config_;
  }

 private:
  void ReadSizes() {
    Size(names_.hidden_size, config_.hidden_size);
    Size(names_.intermediate_size, config_.intermediate_size);
    Size(names_.layers, config_.num_hidden_layers, LayerRange());
    Size(names_.heads, config_.num_attention_heads);
    EncoderConfig& e = config_.encoder;
    if (config_.model_type != "distilbert") {
      fields_.Number("layer_norm_eps", e.layer_norm_eps, Range::Above(0));
    }
    fields_.Text(names_.act, e.hidden_act, "the name of an activation");
  }

  void ReadDropout() {
    EncoderConfig& e = config_.encoder;
    const double usual = config_.model_type == "vit" ? 0 : 0.1;
    e.hidden_dropout_prob = e.attention_probs_dropout_prob = usual;
    fields_.Number(names_.dropout, e.hidden_dropout_prob, Range::From0Below1());
    fields_.Number(names_.attention_dropout, e.attention_probs_dropout_prob,
                   Range::From0Below1());
    if (config_.family == Family::kVision) return;
    if (config_.model_type == "distilbert") {
      e.classifier_dropout = 0.2;
      fields_.Number("seq_classif_dropout", e.classifier_dropout,
                     Range::From0Below1());
      return;
    }
    std::optional<double> own;
    fields_.Number("classifier_dropout", own, Range::From0Below1());
    e.classifier_dropout = own.value_or(e.hidden_dropout_prob);
  }

  void ReadText() {
    Size("vocab_size", config_.vocab_size);
    config_.max_position_embeddings = 512;
    fields_.Integer("max_position_embeddings", config_.max_position_embeddings,
                    SizeRange());
    EncoderConfig& e = config_.encoder;
    e.pooler = config_.model_type == "bert";
    e.embedding_size = config_.hidden_size;
    if (e.network == "electra") {
      e.embedding_size = 128;
      fields_.Integer("embedding_size", e.embedding_size, SizeRange());
    }
    if (config_.model_type != "distilbert") {
      e.type_vocab_size = 2;
      fields_.Integer("type_vocab_size", e.type_vocab_size,
                      Range::Between(0, limits::kModelSize));
    }
    const bool roberta = e.network == "roberta";
    if (!config_.pad_token_id) config_.pad_token_id = roberta ? 1 : 0;
    if (roberta) e.first_position = *config_.pad_token_id + 1;
    if (e.first_position >= config_.max_position_embeddings) {
      fields_.Fault("max_position_embeddings",
                    base::Cat("expected more than ", e.first_position,
                              ", the first token's position"));
    }
  }

  void ReadVision() {
    VisionConfig& v = config_.vision;
    Side("image_size", v.image_size);
    Side("patch_size", v.patch_size);
    fields_.Integer("num_channels", v.num_channels, SizeRange());
    fields_.Bool("qkv_bias", v.qkv_bias);
    config_.max_position_embeddings = v.patches() + 1;
    if (v.num_channels > limits::kModelSize / (v.patch_size * v.patch_size)) {
      fields_.Fault(
          "num_channels",
          base::Cat("expected at most ", limits::kModelSize,
                    " values of a patch, found ", v.num_channels,
                    " channels of ", v.patch_size, " x ", v.patch_size));
    }
    if (v.patch_size > v.image_size) {
      fields_.Fault("patch_size",
                    base::Cat("expected at most image_size (", v.image_size,
                              "), found ", v.patch_size));
    }
  }

  // A number, or [height, width] of a square.
  void Side(std::string_view name, int64_t& value) {
    const Range range = Range::Between(1, limits::kImageSide);
    const JsonNode* node = Value(root_, name);
    if (node == nullptr || node->kind != Kind::kArray) {
      return fields_.Integer(name, value, range);
    }
    const auto& sides = node->items;
    if (sides.size() != 2 || sides[0].kind != Kind::kInteger ||
        !range.Holds(sides[0].number) || sides[0].integer != sides[1].integer) {
      return fields_.Fault(name, base::Cat("expected an integer", range.Text(),
                                           ", or two equal ones"));
    }
    value = sides[0].integer;
  }

  // Rejects options that mpsd would otherwise ignore and that change the
  // network.
  absl::Status CheckOptions() {
    const std::string& act = config_.encoder.hidden_act;
    bool known = false;
    for (const char* name :
         {"gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish"}) {
      known = known || act == name;
    }
    if (!known) {
      return Unimplemented(
          names_.act,
          base::Cat("supported are gelu, gelu_new, gelu_pytorch_tanh, "
                    "relu, silu; found \"",
                    base::Quotable(act), "\""));
    }
    const JsonNode* positions = Value(root_, "position_embedding_type");
    if (positions != nullptr && positions->text != "absolute") {
      return Unimplemented(
          "position_embedding_type",
          base::Cat("supported is \"absolute\", found ", Describe(*positions)));
    }
    for (const char* name : {"is_decoder", "add_cross_attention"}) {
      const JsonNode* node = Value(root_, name);
      if (node == nullptr || !node->boolean) continue;
      return Unimplemented(name, "supported is false");
    }
    if (HasValue("quantization_config")) {
      return Unimplemented("quantization_config",
                           "quantized base models are not supported");
    }
    return absl::OkStatus();
  }

  KeyNames names_;
};

// --- decoders ----------------------------------------------------------------

constexpr std::string_view kModelTypes =
    "llama (Llama 2 and 3, SmolLM), mistral, qwen2 (Qwen2 and 2.5), qwen3, "
    "smollm3, granite, olmo2, olmo3, gemma2, "
    "gemma3_text, phi3 (Phi-3, 3.5 and 4-mini); bert (MiniLM too), roberta, "
    "xlm-roberta, camembert, electra, distilbert; vit";

// Which linears have a bias.
enum class Biases { kNone, kQkv, kAttentionField, kBothFields };

// Which norms a layer has: of the inputs or of the outputs of attention and
// MLP.
enum class NormPlaces { kInputs, kOutputs, kBoth };

// Which layers attend to sliding_window tokens only.
enum class Windows {
  kNone,
  kAll,
  kQwen,     // those from max_window_layers on, with use_sliding_window
  kNoRope,   // those without rope, with use_sliding_window
  kPattern,  // all but each window_pattern-th
};

// A decoder: what its config.json does not say, and which fields of it are
// read. Defaults are those of the config classes (transformers 5.24,
// models/*/configuration_*).
struct DecoderFamily {
  std::string_view model_type;
  int64_t num_key_value_heads = 0;  // 0: as many as attention heads
  int64_t head_dim = 0;             // 0: hidden_size / heads
  int64_t max_position_embeddings = 2048;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  Biases biases = Biases::kNone;
  bool tied = false;           // tie_word_embeddings
  bool qk_norm = false;        // per head
  bool whole_qk_norm = false;  // of all heads together
  NormPlaces norms = NormPlaces::kInputs;
  Windows windows = Windows::kNone;
  int64_t sliding_window = 4096;
  int64_t window_pattern = 0;
  double local_rope_theta = 0;  // 0: layers with a window rotate as the others
  bool multipliers = false;     // Granite's four
  bool fused = false;           // qkv_proj, gate_up_proj
  bool phi = false;             // partial_rotary_factor and longrope
  bool gemma = false;           // norms, activation, scales and head of Gemma
  double attention_softcap = 0, logits_softcap = 0;
};
constexpr DecoderFamily kFamilies[] = {
    {.model_type = "llama", .biases = Biases::kBothFields},
    {.model_type = "mistral",
     .num_key_value_heads = 8,
     .max_position_embeddings = 131072,
     .windows = Windows::kAll},
    {.model_type = "qwen2",
     .num_key_value_heads = 32,
     .max_position_embeddings = 32768,
     .biases = Biases::kQkv,
     .windows = Windows::kQwen},
    {.model_type = "qwen3",
     .num_key_value_heads = 32,
     .head_dim = 128,
     .max_position_embeddings = 32768,
     .biases = Biases::kAttentionField,
     .qk_norm = true,
     .windows = Windows::kQwen},
    {.model_type = "smollm3",
     .num_key_value_heads = 4,
     .max_position_embeddings = 32768,
     .rope_theta = 2000000,
     .biases = Biases::kBothFields,
     .tied = true,
     .windows = Windows::kNoRope,
     .sliding_window = 0},
    {.model_type = "granite",
     .biases = Biases::kBothFields,
     .multipliers = true},
    {.model_type = "olmo2",
     .rms_norm_eps = 1e-5,
     .biases = Biases::kAttentionField,
     .whole_qk_norm = true,
     .norms = NormPlaces::kOutputs},
    {.model_type = "olmo3",
     .rms_norm_eps = 1e-5,
     .rope_theta = 500000,
     .biases = Biases::kAttentionField,
     .whole_qk_norm = true,
     .norms = NormPlaces::kOutputs,
     .windows = Windows::kPattern,
     .window_pattern = 4,
     .local_rope_theta = 500000},
    {.model_type = "gemma2",
     .num_key_value_heads = 4,
     .head_dim = 256,
     .max_position_embeddings = 8192,
     .biases = Biases::kAttentionField,
     .tied = true,
     .norms = NormPlaces::kBoth,
     .windows = Windows::kPattern,
     .window_pattern = 2,
     .gemma = true,
     .attention_softcap = 50,
     .logits_softcap = 30},
    {.model_type = "gemma3_text",
     .num_key_value_heads = 4,
     .head_dim = 256,
     .max_position_embeddings = 131072,
     .rope_theta = 1000000,
     .biases = Biases::kAttentionField,
     .tied = true,
     .qk_norm = true,
     .norms = NormPlaces::kBoth,
     .windows = Windows::kPattern,
     .window_pattern = 6,
     .local_rope_theta = 10000,
     .gemma = true},
    {.model_type = "phi3",
     .max_position_embeddings = 4096,
     .rms_norm_eps = 1e-5,
     .windows = Windows::kAll,
     .sliding_window = 0,
     .fused = true,
     .phi = true},
};

// The supported model type that has the most letters in a row in common with
// `type`, the last of several; "" if none has three.
std::string_view NearestType(std::string_view type) {
  std::string_view nearest;
  size_t most = 3;
  const auto consider = [&](std::string_view known) {
    for (size_t begin = 0; begin < type.size(); ++begin) {
      while (most <= known.size() && begin + most <= type.size() &&
             known.find(type.substr(begin, most)) != known.npos) {
        nearest = known;
        ++most;
      }
    }
  };
  for (const auto& [known, network] : kEncoderTypes) consider(known);
  for (size_t i = std::size(kFamilies); i-- > 0;) {
    consider(kFamilies[i].model_type);
  }
  return nearest;
}

class DecoderReader : ConfigReader {
 public:
  using ConfigReader::ConfigReader;

  absl::StatusOr<ModelConfig> Read() {
    if (root_.kind != Kind::kObject) return findings_.ToStatus(origin_);
    RETURN_IF_ERROR(FindFamily());
    RETURN_IF_ERROR(CheckOptions());
    ReadSizes();
    ReadSwitches();
    ReadScales();
    ReadCommon();
    RETURN_IF_ERROR(ReadRope());
    RETURN_IF_ERROR(ReadWindows());
    if (findings_.empty()) CheckSizes();
    if (!findings_.empty()) return findings_.ToStatus(origin_);
    return config_;
  }

 private:
  absl::Status FindFamily() {
    fields_.Text("model_type", config_.model_type, "the name of a model type",
                 /*required=*/true);
    if (!findings_.empty()) return findings_.ToStatus(origin_);
    for (const DecoderFamily& family : kFamilies) {
      if (family.model_type == config_.model_type) family_ = &family;
    }
    if (family_ != nullptr) return absl::OkStatus();
    const std::string_view nearest = NearestType(config_.model_type);
    return Unimplemented(
        "model_type",
        base::Cat("\"", base::Quotable(config_.model_type),
                  "\" is not supported; ",
                  nearest.empty() ? "" : "the nearest that is: ", nearest,
                  nearest.empty() ? "" : "; ", "supported are ", kModelTypes));
  }

  // Rejects options that mpsd would otherwise ignore and that change the
  // network.
  absl::Status CheckOptions() {
    if (HasValue("quantization_config")) {
      auto stored = ReadStoredQuantization(*root_.Find("quantization_config"));
      if (!stored.ok()) {
        return Unimplemented("quantization_config",
                             std::string(stored.status().message()));
      }
      config_.quantization = *std::move(stored);
    }
    const char* name = family_->gemma ? "hidden_activation" : "hidden_act";
    config_.hidden_act = family_->gemma ? "gelu_pytorch_tanh" : "silu";
    const JsonNode* act = Value(root_, name);
    if (act != nullptr && act->text != config_.hidden_act &&
        (family_->gemma || act->text != "swish")) {
      return Unimplemented(
          name, base::Cat("supported is \"", config_.hidden_act, "\", found ",
                          Describe(*act)));
    }
    const JsonNode* bidirectional = Value(root_, "use_bidirectional_attention");
    if (bidirectional != nullptr && bidirectional->boolean) {
      return Unimplemented("use_bidirectional_attention", "supported is false");
    }
    for (const char* name : {"attention_dropout", "partial_rotary_factor",
                             "resid_pdrop", "embd_pdrop"}) {
      const JsonNode* node = root_.Find(name);
      const double neutral = name[0] == 'p' ? 1 : 0;
      if (node == nullptr || node->kind == Kind::kNull ||
          node->number == neutral || (family_->phi && neutral == 1)) {
        continue;
      }
      return Unimplemented(name, base::Cat("supported is ", neutral, ", found ",
                                           Describe(*node)));
    }
    return absl::OkStatus();
  }

  void ReadSizes() {
    Size("vocab_size", config_.vocab_size);
    Size("hidden_size", config_.hidden_size);
    Size("intermediate_size", config_.intermediate_size);
    Size("num_hidden_layers", config_.num_hidden_layers, LayerRange());
    Size("num_attention_heads", config_.num_attention_heads);
    config_.num_key_value_heads =
        Default("num_key_value_heads", family_->num_key_value_heads,
                config_.num_attention_heads);
    config_.head_dim =
        Default("head_dim", family_->head_dim,
                config_.num_attention_heads == 0
                    ? 0
                    : config_.hidden_size / config_.num_attention_heads);
    config_.max_position_embeddings =
        Default("max_position_embeddings", family_->max_position_embeddings,
                family_->max_position_embeddings);
    config_.rms_norm_eps = Positive("rms_norm_eps", family_->rms_norm_eps);
  }

  // Reads a count: `absent` without the field (0: treat as null), `derived` for
  // null.
  int64_t Default(std::string_view name, int64_t absent, int64_t derived) {
    std::optional<int64_t> value;
    fields_.Integer(name, value, SizeRange());
    if (value) return *value;
    return fields_.Has(name) || absent == 0 ? derived : absent;
  }

  bool Switch(std::string_view name, bool otherwise = false) {
    std::optional<bool> value;
    fields_.Bool(name, value);
    return value.value_or(otherwise);
  }

  void ReadSwitches() {
    config_.tie_word_embeddings = Switch("tie_word_embeddings", family_->tied);
    const Biases biases = family_->biases;
    config_.o_bias =
        biases >= Biases::kAttentionField && Switch("attention_bias");
    config_.qkv_bias = biases == Biases::kQkv || config_.o_bias;
    config_.mlp_bias = biases == Biases::kBothFields && Switch("mlp_bias");
    config_.qk_norm = family_->qk_norm || family_->whole_qk_norm;
    config_.qk_norm_whole = family_->whole_qk_norm;
    config_.fused = family_->fused;
    if (family_->norms == NormPlaces::kOutputs) {
      config_.norms = {"", "post_attention_layernorm", "",
                       "post_feedforward_layernorm"};
    } else if (family_->norms == NormPlaces::kBoth) {
      config_.norms = {"input_layernorm", "post_attention_layernorm",
                       "pre_feedforward_layernorm",
                       "post_feedforward_layernorm"};
    }
  }

  double Positive(std::string_view name, double otherwise) {
    fields_.Number(name, otherwise, Range::Above(0));
    return otherwise;
  }

  void ReadScales() {
    if (family_->gemma) return ReadGemma();
    if (!family_->multipliers) return;
    config_.embedding_scale = Positive("embedding_multiplier", 1);
    config_.attention_scale = Positive("attention_multiplier", 1);
    config_.residual_scale = Positive("residual_multiplier", 1);
    config_.logits_scale = 1 / Positive("logits_scaling", 1);
  }

  void ReadGemma() {
    config_.norms_add_one = true;
    config_.embedding_scale =
        std::sqrt(static_cast<double>(config_.hidden_size));
    config_.rounds_embedding_scale = true;
    config_.attention_scale =
        1 / std::sqrt(Positive("query_pre_attn_scalar", 256));
    // Gemma 3 has the field, but its attention does not read it.
    if (family_->attention_softcap > 0) {
      config_.attention_softcap =
          Softcap("attn_logit_softcapping", family_->attention_softcap);
    }
    config_.logits_softcap =
        Softcap("final_logit_softcapping", family_->logits_softcap);
  }

  // `absent` without the field, 0 for null.
  double Softcap(std::string_view name, double absent) {
    std::optional<double> cap;
    fields_.Number(name, cap, Range::Above(0));
    return cap ? *cap : fields_.Has(name) ? 0 : absent;
  }

  // RotaryEmbeddingConfigMixin.convert_rope_params_to_dict: rope_scaling
  // replaces rope_parameters; rope_theta is read from inside it, else from the
  // level above.
  absl::Status ReadRope() {
    config_.rope_theta = Positive("rope_theta", family_->rope_theta);
    config_.local_rope_theta = family_->local_rope_theta;
    if (family_->phi) {
      config_.partial_rotary_factor = Positive("partial_rotary_factor", 1);
    }
    if (family_->gemma && HasLocalRope()) {
      config_.local_rope_theta =
          Positive("rope_local_base_freq", family_->local_rope_theta);
    }
    const std::string_view name =
        HasValue("rope_scaling") ? "rope_scaling" : "rope_parameters";
    if (!HasValue(name)) return absl::OkStatus();
    FieldReader rope = fields_.Section(name);
    if (!HasLocalRope()) return ReadRopeScaling(rope, name);
    // Transformers 5 has a section for each type of layer.
    FieldReader local = rope.Section("sliding_attention");
    local.Number("rope_theta", config_.local_rope_theta, Range::Above(0));
    const std::string_view full = "full_attention";
    if (!rope.Has(full)) return ReadRopeScaling(rope, name);
    FieldReader main = rope.Section(full);
    return ReadRopeScaling(main, name);
  }

  bool HasLocalRope() const { return family_->local_rope_theta > 0; }

  absl::Status ReadRopeScaling(FieldReader& rope, std::string_view name) {
    rope.Number("rope_theta", config_.rope_theta, Range::Above(0));
    std::string type = "default";
    rope.Text("type", type, "the name of a rope type");
    rope.Text("rope_type", type, "the name of a rope type");
    if (family_->phi && (type == "su" || type == "yarn")) type = "longrope";
    if (family_->phi) {
      rope.Number("partial_rotary_factor", config_.partial_rotary_factor,
                  Range::Above(0));
    }
    if (type == "longrope") {
      ReadLongRope(rope);
    } else if (type == "llama3") {
      ReadLlama3(rope);
    } else if (type == "linear") {
      config_.linear_rope_factor = RequiredFactor(rope, "factor");
    } else if (type == "dynamic") {
      RequiredFactor(rope, "factor");
      config_.dynamic_rope = true;
    } else if (type == "yarn") {
      ReadYarn(rope);
    } else if (type != "default") {
      return Unimplemented(
          name, base::Cat("the rope type \"", base::Quotable(type),
                          "\" is not supported; supported are "
                          "default, dynamic, linear, llama3, longrope, yarn"));
    }
    return absl::OkStatus();
  }

  double RequiredFactor(FieldReader& rope, std::string_view name) {
    double value = 1;
    if (!rope.Has(name)) rope.Fault(name, "missing; expected a number > 0");
    rope.Number(name, value, Range::Above(0));
    return value;
  }

  // Of the rope section or, as in Phi-3, of config.json itself.
  int64_t OriginalPositions(FieldReader& rope) {
    constexpr std::string_view kName = "original_max_position_embeddings";
    int64_t positions = family_->phi ? 4096 : config_.max_position_embeddings;
    rope.Integer(kName, positions, SizeRange());
    fields_.Integer(kName, positions, SizeRange());
    return positions;
  }

  void ReadYarn(FieldReader& rope) {
    YarnRopeScaling scaling;
    const auto original = static_cast<double>(OriginalPositions(rope));
    scaling.original_max_position_embeddings = original;
    scaling.factor =
        static_cast<double>(config_.max_position_embeddings) / original;
    rope.Number("factor", scaling.factor, Range::Above(0));
    rope.Number("beta_fast", scaling.beta_fast, Range::Above(0));
    rope.Number("beta_slow", scaling.beta_slow, Range::Above(0));
    rope.Bool("truncate", scaling.truncate);
    double mscale = 0, mscale_all_dim = 0;
    rope.Number("mscale", mscale, Range::AtLeast(0));
    rope.Number("mscale_all_dim", mscale_all_dim, Range::AtLeast(0));
    const auto grown = [&](double by) {
      return scaling.factor <= 1 ? 1 : 0.1 * by * std::log(scaling.factor) + 1;
    };
    scaling.attention_factor = mscale > 0 && mscale_all_dim > 0
                                   ? grown(mscale) / grown(mscale_all_dim)
                                   : grown(1);
    rope.Number("attention_factor", scaling.attention_factor, Range::Above(0));
    config_.yarn = scaling;
  }

  void ReadLongRope(FieldReader& rope) {
    LongRopeScaling scaling;
    scaling.original_max_position_embeddings = OriginalPositions(rope);
    const auto original =
        static_cast<double>(scaling.original_max_position_embeddings);
    double factor =
        static_cast<double>(config_.max_position_embeddings) / original;
    rope.Number("factor", factor, Range::Above(0));
    if (factor > 1) {
      scaling.attention_factor =
          std::sqrt(1 + std::log(factor) / std::log(original));
    }
    rope.Number("attention_factor", scaling.attention_factor, Range::Above(0));
    for (auto [name, factors] :
         {std::pair("short_factor", &scaling.short_factor),
          std::pair("long_factor", &scaling.long_factor)}) {
      rope.Numbers(name, *factors, Range::Above(0));
      const int64_t expected = config_.rotary_size() / 2;
      if (static_cast<int64_t>(factors->size()) == expected) continue;
      rope.Fault(name, base::Cat("expected ", expected, " numbers, found ",
                                 factors->size()));
    }
    config_.longrope = std::move(scaling);
  }

  void ReadLlama3(FieldReader& rope) {
    Llama3RopeScaling scaling;
    scaling.factor = RequiredFactor(rope, "factor");
    scaling.low_freq_factor = RequiredFactor(rope, "low_freq_factor");
    scaling.high_freq_factor = RequiredFactor(rope, "high_freq_factor");
    scaling.original_max_position_embeddings = OriginalPositions(rope);
    config_.rope_scaling = scaling;
  }

  absl::Status ReadWindows() {
    config_.sliding_window.assign(config_.num_hidden_layers, 0);
    switch (family_->windows) {
      case Windows::kNone:
        return absl::OkStatus();
      case Windows::kAll:
        config_.sliding_window.assign(config_.num_hidden_layers, Window());
        return absl::OkStatus();
      case Windows::kQwen: {
        const int64_t window = Window();
        return ReadQwenWindows(Switch("use_sliding_window") ? window : 0);
      }
      case Windows::kNoRope:
        return ReadNoRopeLayers();
      case Windows::kPattern:
        return ReadWindowPattern();
    }
    return absl::OkStatus();
  }

  absl::Status ReadWindowPattern() {
    const int64_t window = Window();
    if (HasValue("layer_types")) {
      RETURN_IF_ERROR(ReadLayerTypes(window));
    } else {
      int64_t pattern = family_->window_pattern;
      if (family_->gemma && HasLocalRope()) {
        fields_.Integer("sliding_window_pattern", pattern, LayerRange());
      }
      for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
        if ((i + 1) % pattern != 0) {
          config_.sliding_window[i] = window;
        }
      }
    }
    if (!HasLocalRope()) return absl::OkStatus();
    for (const int64_t w : config_.sliding_window) {
      config_.rope.push_back(w > 0 ? LayerRope::kLocal : LayerRope::kMain);
    }
    return absl::OkStatus();
  }

  // sliding_window: the family's without the field, 0 for null.
  int64_t Window() {
    std::optional<int64_t> window;
    fields_.Integer("sliding_window", window, SizeRange());
    if (!window && !fields_.Has("sliding_window")) {
      return family_->sliding_window;
    }
    return window.value_or(0);
  }

  // Every fourth layer has no rotary embedding; if the model has windows, these
  // layers do.
  absl::Status ReadNoRopeLayers() {
    const int64_t layers = config_.num_hidden_layers;
    int64_t interval = 4;
    fields_.Integer("no_rope_layer_interval", interval, LayerRange());
    config_.rope.assign(layers, LayerRope::kMain);
    for (int64_t i = interval - 1; i < layers; i += interval) {
      config_.rope[i] = LayerRope::kNone;
    }
    if (HasValue("no_rope_layers")) {
      std::optional<std::vector<int64_t>> uses;
      fields_.Integers("no_rope_layers", uses, Range::Between(0, 1));
      if (static_cast<int64_t>(uses ? uses->size() : 0) < layers) {
        fields_.Fault("no_rope_layers",
                      "expected 0 or 1 for each of the num_hidden_layers "
                      "layers");
        return absl::OkStatus();
      }
      for (int64_t i = 0; i < layers; ++i) {
        config_.rope[i] = (*uses)[i] == 0 ? LayerRope::kNone : LayerRope::kMain;
      }
    }
    const int64_t window = Switch("use_sliding_window") ? Window() : 0;
    if (window == 0) return absl::OkStatus();
    if (HasValue("layer_types")) return ReadLayerTypes(window);
    for (int64_t i = 0; i < layers; ++i) {
      if (config_.rope[i] == LayerRope::kNone) {
        config_.sliding_window[i] = window;
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadQwenWindows(int64_t window) {
    int64_t full_layers = 28;  // the first layers attend fully
    fields_.Integer("max_window_layers", full_layers, Range::AtLeast(0));
    if (HasValue("layer_types")) return ReadLayerTypes(window);
    for (int64_t i = full_layers; i < config_.num_hidden_layers; ++i) {
      config_.sliding_window[i] = window;
    }
    return absl::OkStatus();
  }

  absl::Status ReadLayerTypes(int64_t window) {
    std::vector<std::string> types;
    fields_.Texts("layer_types", types, "a list of layer types");
    if (static_cast<int64_t>(types.size()) != config_.num_hidden_layers) {
      fields_.Fault("layer_types",
                    "expected one for each of the "
                    "num_hidden_layers layers");
      return absl::OkStatus();
    }
    for (size_t i = 0; i < types.size(); ++i) {
      if (types[i] == "full_attention") continue;
      if (types[i] != "sliding_attention") {
        return Unimplemented("layer_types",
                             base::Cat("\"", base::Quotable(types[i]),
                                       "\" is not supported; supported are "
                                       "full_attention, sliding_attention"));
      }
      if (window == 0) {
        fields_.Fault("layer_types",
                      "sliding_attention needs "
                      "use_sliding_window and sliding_window");
        return absl::OkStatus();
      }
      config_.sliding_window[i] = window;
    }
    return absl::OkStatus();
  }

  void CheckSizes() {
    if (config_.num_attention_heads % config_.num_key_value_heads != 0) {
      fields_.Fault("num_key_value_heads",
                    base::Cat("expected a divisor of num_attention_heads (",
                              config_.num_attention_heads, "), found ",
                              config_.num_key_value_heads));
    }
    if (config_.head_dim > 0 &&
        config_.num_attention_heads > limits::kModelSize / config_.head_dim) {
      fields_.Fault("head_dim",
                    base::Cat("expected at most ", limits::kModelSize,
                              " together with num_attention_heads (",
                              config_.num_attention_heads, "), found ",
                              config_.head_dim));
    }
    if (config_.rotary_size() % 2 != 0 || config_.rotary_size() == 0 ||
        config_.rotary_size() > config_.head_dim) {
      if (config_.partial_rotary_factor != 1) {
        fields_.Fault("partial_rotary_factor",
                      base::Cat("expected an even number of at most head_dim (",
                                config_.head_dim, ") times the factor, found ",
                                config_.rotary_size()));
      }
    }
    if (config_.head_dim % 2 != 0 || config_.head_dim == 0) {
      fields_.Fault("head_dim", base::Cat("expected an even number, found ",
                                          config_.head_dim));
    }
  }

  const DecoderFamily* family_ = nullptr;
};

// mlx_lm writes a "quantization", and in recent versions a copy as
// "quantization_config", with sizes but without the method's name.
absl::Status RefuseMlx(const JsonNode& root, std::string_view origin) {
  for (std::string_view name : {"quantization", "quantization_config"}) {
    const JsonNode* node = root.Find(name);
    if (node == nullptr || node->Find("quant_method") != nullptr) continue;
    const JsonNode* bits = node->Find("bits");
    if (bits == nullptr || node->Find("group_size") == nullptr) continue;
    return absl::UnimplementedError(base::Cat(
        origin, ":", node->line, ": ", name, ": this is a folder of MLX in ",
        bits->integer,
        " bits, which only mlx reads; name the model that it was made from, or "
        "write it out with `mlx_lm.convert --dequantize`, and let "
        "quantization_config.load_in_4bit in job.json quantise that"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view json,
                                             std::string_view origin) {
  ASSIGN_OR_RETURN(JsonNode root,
                   ParseJson(json, origin, limits::kModelLabels));
  RETURN_IF_ERROR(RefuseMlx(root, origin));
  const JsonNode* type = root.Find("model_type");
  if (type != nullptr && !EncoderNetwork(type->text).empty()) {
    return EncoderReader(root, origin).Read();
  }
  return DecoderReader(root, origin).Read();
}

absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& model_dir,
                                            const base::ReadRoots* within) {
  const std::string path =
      (std::filesystem::path(model_dir) / "config.json").string();
  ASSIGN_OR_RETURN(std::string text,
                   base::ReadSmallFile(path, limits::kModelFileBytes, within));
  return ParseModelConfig(text, path);
}

namespace {

// Numbers in the weights of the network with `layers` blocks.
int64_t CountWithLayers(ModelConfig config, int64_t layers) {
  config.num_hidden_layers = layers;
  int64_t count = 0;
  for (const Module& module : Modules(config)) {
    const bool tied = module.name == "lm_head" && config.tie_word_embeddings;
    if (!tied && __builtin_add_overflow(count, module.parameters(), &count)) {
      return std::numeric_limits<int64_t>::max();
    }
  }
  return count;
}

}  // namespace

// All blocks have the same parameters: one is counted and multiplied, so that a
// config with 10,000 layers takes no longer.
int64_t ParameterCount(const ModelConfig& config) {
  int64_t count = CountWithLayers(config, 0);
  const int64_t one = CountWithLayers(config, 1);
  int64_t blocks = 0;
  if (one == std::numeric_limits<int64_t>::max() ||
      __builtin_mul_overflow(one - count, config.num_hidden_layers, &blocks) ||
      __builtin_add_overflow(count, blocks, &count)) {
    return std::numeric_limits<int64_t>::max();
  }
  return count;
}

}  // namespace mpsd::spec
