// SPDX-License-Identifier: Apache-2.0
#include "core/spec/encoder_config.h"

#include <charconv>
#include <string>

#include "core/base/limits.h"
#include "core/base/printable.h"
#include "core/base/status_macros.h"
#include "core/base/strings.h"
#include "core/spec/findings.h"

namespace mpsd::spec {
namespace {

using Kind = JsonNode::Kind;

// The family's names for fields that every family has.
struct Names {
  std::string_view hidden_size = "hidden_size";
  std::string_view intermediate_size = "intermediate_size";
  std::string_view layers = "num_hidden_layers";
  std::string_view heads = "num_attention_heads";
  std::string_view act = "hidden_act";
  std::string_view dropout = "hidden_dropout_prob";
  std::string_view attention_dropout = "attention_probs_dropout_prob";
};
constexpr Names kDistilBert = {.hidden_size = "dim",
                               .intermediate_size = "hidden_dim",
                               .layers = "n_layers",
                               .heads = "n_heads",
                               .act = "activation",
                               .dropout = "dropout",
                               .attention_dropout = "attention_dropout"};

const JsonNode* Value(const JsonNode& root, std::string_view name) {
  const JsonNode* node = root.Find(name);
  return node == nullptr || node->kind == Kind::kNull ? nullptr : node;
}

class Reader {
 public:
  Reader(const JsonNode& root, std::string_view origin)
      : root_(root), origin_(origin), fields_(&root, "", findings_) {}

  absl::StatusOr<ModelConfig> Read() {
    fields_.Text("model_type", c_.model_type, "the name of a model type");
    c_.family = c_.model_type == "vit" ? Family::kVision : Family::kEncoder;
    if (c_.model_type == "distilbert") names_ = kDistilBert;
    ReadSizes();
    ReadDropout();
    ReadCommon(fields_, root_, c_);
    if (c_.family == Family::kVision) {
      ReadVision();
    } else {
      ReadText();
    }
    RETURN_IF_ERROR(CheckOptions());
    if (findings_.empty() && c_.hidden_size % c_.num_attention_heads != 0) {
      fields_.Fault(
          names_.heads,
          base::Cat("expected a divisor of ", names_.hidden_size, " (",
                    c_.hidden_size, "), found ", c_.num_attention_heads));
    }
    if (!findings_.empty()) return findings_.ToStatus(origin_);
    c_.num_key_value_heads = c_.num_attention_heads;
    c_.head_dim = c_.hidden_size / c_.num_attention_heads;
    return c_;
  }

 private:
  void Size(std::string_view name, int64_t& value, Range range = SizeRange()) {
    if (Value(root_, name) == nullptr) {
      return fields_.Fault(
          name, base::Cat("missing; expected an integer", range.Text()));
    }
    fields_.Integer(name, value, range);
  }

  void ReadSizes() {
    Size(names_.hidden_size, c_.hidden_size);
    Size(names_.intermediate_size, c_.intermediate_size);
    Size(names_.layers, c_.num_hidden_layers, LayerRange());
    Size(names_.heads, c_.num_attention_heads);
    EncoderConfig& e = c_.encoder;
    if (c_.model_type != "distilbert") {
      fields_.Number("layer_norm_eps", e.layer_norm_eps, Range::Above(0));
    }
    fields_.Text(names_.act, e.hidden_act, "the name of an activation");
  }

  void ReadDropout() {
    EncoderConfig& e = c_.encoder;
    const double usual = c_.model_type == "vit" ? 0 : 0.1;
    e.hidden_dropout_prob = e.attention_probs_dropout_prob = usual;
    fields_.Number(names_.dropout, e.hidden_dropout_prob, Range::From0Below1());
    fields_.Number(names_.attention_dropout, e.attention_probs_dropout_prob,
                   Range::From0Below1());
    if (c_.family == Family::kVision) return;
    if (c_.model_type == "distilbert") {
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
    Size("vocab_size", c_.vocab_size);
    c_.max_position_embeddings = 512;
    fields_.Integer("max_position_embeddings", c_.max_position_embeddings,
                    SizeRange());
    EncoderConfig& e = c_.encoder;
    e.pooler = c_.model_type == "bert";
    if (c_.model_type != "distilbert") {
      e.type_vocab_size = 2;
      fields_.Integer("type_vocab_size", e.type_vocab_size,
                      Range::Between(0, limits::kModelSize));
    }
    if (!c_.pad_token_id) c_.pad_token_id = c_.model_type == "roberta" ? 1 : 0;
    if (c_.model_type == "roberta") e.first_position = *c_.pad_token_id + 1;
    if (e.first_position >= c_.max_position_embeddings) {
      fields_.Fault("max_position_embeddings",
                    base::Cat("expected more than ", e.first_position,
                              ", the first token's position"));
    }
  }

  void ReadVision() {
    VisionConfig& v = c_.vision;
    Side("image_size", v.image_size);
    Side("patch_size", v.patch_size);
    fields_.Integer("num_channels", v.num_channels, SizeRange());
    fields_.Bool("qkv_bias", v.qkv_bias);
    c_.max_position_embeddings = v.patches() + 1;
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
    const std::string& act = c_.encoder.hidden_act;
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
    if (Value(root_, "quantization_config") != nullptr) {
      return Unimplemented("quantization_config",
                           "quantized base models are not supported");
    }
    return absl::OkStatus();
  }

  absl::Status Unimplemented(std::string_view field, std::string_view message) {
    return absl::UnimplementedError(base::Cat(
        origin_, ":", fields_.LineOf(field), ": ", field, ": ", message));
  }

  const JsonNode& root_;
  const std::string_view origin_;
  Findings findings_;
  FieldReader fields_;
  Names names_;
  ModelConfig c_;
};

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

}  // namespace

bool IsEncoderType(std::string_view model_type) {
  return model_type == "bert" || model_type == "roberta" ||
         model_type == "distilbert" || model_type == "vit";
}

absl::StatusOr<ModelConfig> ReadEncoderConfig(const JsonNode& root,
                                              std::string_view origin) {
  return Reader(root, origin).Read();
}

void ReadCommon(FieldReader& fields, const JsonNode& root,
                ModelConfig& config) {
  constexpr std::string_view kDtype = "the name of a dtype";
  fields.Text("torch_dtype", config.torch_dtype, kDtype);
  fields.Text("dtype", config.torch_dtype, kDtype);
  if (Value(root, "architectures") != nullptr) {
    fields.Texts("architectures", config.architectures,
                 "a list of class names");
  }
  fields.Integer("pad_token_id", config.pad_token_id,
                 Range::Between(-1, limits::kModelSize));
  if (config.pad_token_id == -1) config.pad_token_id.reset();
  fields.Number("initializer_range", config.initializer_range,
                Range::AtLeast(0));
  fields.Integer("num_labels", config.head.num_labels, SizeRange());
  const JsonNode* names = Value(root, "id2label");
  if (names != nullptr && names->kind == Kind::kObject) {
    ReadLabelNames(fields, *names, config.head);
  }
  if (Value(root, "problem_type") != nullptr) {
    fields.Text("problem_type", config.head.problem_type,
                "a problem type of Transformers");
  }
}

}  // namespace mpsd::spec
