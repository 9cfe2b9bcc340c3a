// SPDX-License-Identifier: Apache-2.0
#include "core/lora/gguf.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <numbers>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/ckpt/safetensors.h"
#include "core/spec/model_config.h"
#include "core/spec/modules.h"
#include "core/text/folder.h"
#include "core/text/tokenizer.h"
#include "nlohmann/json.hpp"

namespace mpsd::gguf {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little,
              "the format stores little-endian numbers");

constexpr size_t kAlignment = 32;
constexpr int64_t kBlock = 32;  // numbers of a Q8_0 block

// --- the container -----------------------------------------------------------

// Types of metadata values.
enum ValueType : uint32_t {
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
};

// Types of tensors.
enum TensorType : uint32_t {
  kTensorF32 = 0,
  kTensorF16 = 1,
  kTensorQ8_0 = 8,
  kTensorBf16 = 30
};

class Bytes {
 public:
  template <typename Number>
  void Put(Number number) {
    text_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  void PutText(std::string_view text) {
    Put(uint64_t{text.size()});
    PutRaw(text);
  }
  void PutRaw(std::string_view bytes) { text_.append(bytes); }
  void Pad() {
    text_.resize((text_.size() + kAlignment - 1) / kAlignment * kAlignment);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// The key-value pairs at the head of the file.
class Metadata {
 public:
  void Text(std::string_view key, std::string_view value) {
    Key(key, kString);
    bytes_.PutText(value);
  }
  void Count(std::string_view key, int64_t value) {
    Key(key, kUint32);
    bytes_.Put(static_cast<uint32_t>(value));
  }
  void Number(std::string_view key, double value) {
    Key(key, kFloat32);
    bytes_.Put(static_cast<float>(value));
  }
  void Flag(std::string_view key, bool value) {
    Key(key, kBool);
    bytes_.Put(static_cast<uint8_t>(value));
  }
  void Texts(std::string_view key, const std::vector<std::string>& values) {
    Array(key, kString, values.size());
    for (const std::string& value : values) bytes_.PutText(value);
  }
  void Counts(std::string_view key, const std::vector<int32_t>& values) {
    Array(key, kInt32, values.size());
    for (const int32_t value : values) bytes_.Put(value);
  }
  void Numbers(std::string_view key, const std::vector<float>& values) {
    Array(key, kFloat32, values.size());
    for (const float value : values) bytes_.Put(value);
  }

  uint64_t pairs() const { return pairs_; }
  const std::string& bytes() const { return bytes_.text(); }

 private:
  void Key(std::string_view key, ValueType type) {
    ++pairs_;
    bytes_.PutText(key);
    bytes_.Put(uint32_t{type});
  }
  void Array(std::string_view key, ValueType type, size_t size) {
    Key(key, kArray);
    bytes_.Put(uint32_t{type});
    bytes_.Put(uint64_t{size});
  }

  Bytes bytes_;
  uint64_t pairs_ = 0;
};

// A tensor of the file and its source.
struct Planned {
  std::string name;    // "blk.0.attn_q.weight"
  std::string stored;  // in the model's file; "": `value` is written
  at::Tensor value;
  std::vector<int64_t> shape;
  TensorType type = kTensorF32;
  int64_t heads = 0;     // whose rows become pairs; 0: rows stay
  bool add_one = false;  // w of 1 + w

  uint64_t bytes() const {
    const uint64_t n = c10::multiply_integers(shape);
    if (type == kTensorF32) return 4 * n;
    return type == kTensorQ8_0 ? n / kBlock * (2 + kBlock) : 2 * n;
  }
};

// Rows that a model rotates as halves, in the order of llama.cpp's networks
// that rotate neighbours (LlamaModel.permute).
at::Tensor HalvesToPairs(const at::Tensor& w, int64_t heads) {
  const int64_t half = w.size(0) / heads / 2;
  std::vector<int64_t> split = {heads, 2, half};
  split.insert(split.end(), w.sizes().begin() + 1, w.sizes().end());
  return w.view(split).transpose(1, 2).reshape(w.sizes());
}

// x = scale · q of each block, with q rounded half away from zero
// (gguf/quants.py, Q8_0.quantize_blocks).
at::Tensor QuantizedQ8(const at::Tensor& w) {
  const at::Tensor blocks = w.reshape({-1, kBlock});
  const at::Tensor scale = blocks.abs().amax(1, /*keepdim=*/true) / 127;
  const at::Tensor inverse =
      at::where(scale == 0, at::zeros_like(scale), 1 / scale);
  const at::Tensor q = blocks * inverse;
  const at::Tensor rounded = (q.abs() + 0.5).floor_() * q.sign();
  return at::cat({scale.to(at::kHalf).view(at::kByte),
                  rounded.to(at::kChar).view(at::kByte)},
                 1);
}

at::Tensor Stored(const at::Tensor& w, TensorType type) {
  switch (type) {
    case kTensorF32:
      return w.contiguous();
    case kTensorF16:
      return w.to(at::kHalf).contiguous();
    case kTensorBf16:
      return w.to(at::kBFloat16).contiguous();
    case kTensorQ8_0:
      return QuantizedQ8(w).contiguous();
  }
  return w;
}

absl::Status WriteTensors(const tensorfile::Weights& weights,
                          const std::vector<Planned>& plan, std::ofstream& out,
                          const fs::path& file) {
  for (const Planned& item : plan) {
    at::Tensor w = item.value;
    if (!item.stored.empty()) {
      ASSIGN_OR_RETURN(
          w, weights.Load(item.stored, item.shape, at::kCPU, at::kFloat));
    }
    if (item.add_one) w = w + 1;
    if (item.heads > 0) w = HalvesToPairs(w, item.heads);
    w = Stored(w, item.type);
    out.write(static_cast<const char*>(w.data_ptr()),
              static_cast<std::streamsize>(w.nbytes()));
    const size_t padding = (kAlignment - w.nbytes() % kAlignment) % kAlignment;
    out.write(std::string(padding, '\0').data(),
              static_cast<std::streamsize>(padding));
    if (!out) {
      return absl::InternalError(
          absl::StrCat(file.string(), ": cannot write all of it: disk full?"));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteFile(const Metadata& metadata,
                       const std::vector<Planned>& plan,
                       const tensorfile::Weights& weights,
                       const fs::path& file) {
  Bytes head;
  head.PutRaw("GGUF");
  head.Put(uint32_t{3});
  head.Put(uint64_t{plan.size()});
  head.Put(metadata.pairs());
  Bytes infos;
  uint64_t offset = 0;
  for (const Planned& item : plan) {
    infos.PutText(item.name);
    infos.Put(static_cast<uint32_t>(item.shape.size()));
    // The fastest dimension comes first.
    for (auto size = item.shape.rbegin(); size != item.shape.rend(); ++size) {
      infos.Put(static_cast<uint64_t>(*size));
    }
    infos.Put(uint32_t{item.type});
    infos.Put(offset);
    offset += (item.bytes() + kAlignment - 1) / kAlignment * kAlignment;
  }
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  head.PutRaw(metadata.bytes());
  head.PutRaw(infos.text());
  head.Pad();
  out << head.text();
  RETURN_IF_ERROR(WriteTensors(weights, plan, out, file));
  out.close();
  if (!out) return absl::InternalError(file.string() + ": cannot be written");
  return base::SyncPath(file, O_RDONLY);
}

// --- the network -------------------------------------------------------------

// A model type as llama.cpp knows it.
struct Network {
  std::string_view model_type;
  std::string_view name;       // general.architecture
  bool pairs = false;          // rotates neighbours instead of halves
  int64_t swa_period = 0;      // every such layer sees all; 0: no windows
  bool scales = false;         // Granite's four multipliers
  int64_t no_rope_period = 0;  // every such layer has no rope
};

constexpr Network kNetworks[] = {
    {.model_type = "llama", .name = "llama", .pairs = true},
    {.model_type = "mistral", .name = "llama", .pairs = true},
    {.model_type = "qwen2", .name = "qwen2"},
    {.model_type = "qwen3", .name = "qwen3"},
    {.model_type = "smollm3",
     .name = "smollm3",
     .pairs = true,
     .no_rope_period = 4},
    {.model_type = "granite", .name = "granite", .pairs = true, .scales = true},
    {.model_type = "olmo2", .name = "olmo2"},
    {.model_type = "olmo3", .name = "olmo2", .swa_period = 4},
    {.model_type = "gemma2", .name = "gemma2", .swa_period = 2},
    {.model_type = "gemma3_text", .name = "gemma3", .swa_period = 6},
    {.model_type = "phi3", .name = "phi3"},
};

// Linears and norms of q and k; the norms of a layer are in LayerNorms.
constexpr std::pair<std::string_view, std::string_view> kLayerParts[] = {
    {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},      {"self_attn.o_proj", "attn_output"},
    {"self_attn.qkv_proj", "attn_qkv"},  {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"}, {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},           {"mlp.gate_up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

std::string PartName(const spec::ModelConfig& config, std::string_view part) {
  for (const auto& [ours, theirs] : kLayerParts) {
    if (part == ours) return std::string(theirs);
  }
  if (part == config.norms.attention) return "attn_norm";
  if (part == config.norms.attention_output) return "post_attention_norm";
  if (part == config.norms.mlp) return "ffn_norm";
  return "post_ffw_norm";
}

// "model.layers.3.mlp.up_proj" as "blk.3.ffn_up".
std::string TensorName(const spec::ModelConfig& config,
                       const std::string& module) {
  if (module == "model.embed_tokens") return "token_embd";
  if (module == "model.norm") return "output_norm";
  if (module == "lm_head") return "output";
  constexpr std::string_view kLayers = "model.layers.";
  const size_t dot = module.find('.', kLayers.size());
  return absl::StrCat("blk.",
                      module.substr(kLayers.size(), dot - kLayers.size()), ".",
                      PartName(config, module.substr(dot + 1)));
}

struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;  // of TokenType
  std::map<std::string, int32_t> ids;
};

class Converter {
 public:
  Converter(const fs::path& model, Type type) : model_(model), type_(type) {}

  absl::Status Run(const fs::path& file) {
    ASSIGN_OR_RETURN(config_, spec::ReadModelConfig(model_.string()));
    RETURN_IF_ERROR(CheckNetwork());
    ASSIGN_OR_RETURN(weights_, tensorfile::Weights::Open(model_));
    AddSizes();
    AddRope();
    RETURN_IF_ERROR(AddTensors());
    RETURN_IF_ERROR(AddTokenizer());
    return WriteFile(metadata_, plan_, *weights_, file);
  }

 private:
  absl::Status Unknown(std::string_view what) const {
    return absl::UnimplementedError(absl::StrCat(
        model_.string(), ": llama.cpp cannot run it as it was trained: ",
        std::string(what), "; export it as merged"));
  }

  absl::Status CheckNetwork() {
    for (const Network& network : kNetworks) {
      if (network.model_type == config_.model_type) network_ = &network;
    }
    if (network_ == nullptr || config_.family != spec::Family::kDecoder) {
      return Unknown(absl::StrCat("model_type ", config_.model_type));
    }
    if (config_.quantization) return Unknown("its weights are quantised");
    for (const std::string& name : config_.architectures) {
      if (!absl::EndsWith(name, "ForCausalLM")) return Unknown(name);
    }
    RETURN_IF_ERROR(CheckScales());
    return CheckLayers();
  }

  absl::Status CheckScales() const {
    const double usual = 1 / std::sqrt(static_cast<double>(config_.head_dim));
    // The largest Gemmas; llama.cpp knows them by their layers.
    const bool large =
        (network_->name == "gemma2" && config_.num_hidden_layers == 46) ||
        (network_->name == "gemma3" && config_.num_hidden_layers == 62);
    const double expected =
        large ? 1 / std::sqrt(static_cast<double>(config_.hidden_size /
                                                  config_.num_attention_heads))
              : usual;
    const double scale =
        config_.attention_scale == 0 ? usual : config_.attention_scale;
    if (!network_->scales && std::abs(scale / expected - 1) > 1e-6) {
      return Unknown("query_pre_attn_scalar");
    }
    if (network_->name == "olmo2" && HasLocalRope() &&
        config_.local_rope_theta != config_.rope_theta) {
      return Unknown("its rope_theta of sliding_attention");
    }
    if (config_.yarn &&
        (config_.yarn->beta_fast != 32 || config_.yarn->beta_slow != 1 ||
         std::abs(config_.yarn->attention_factor -
                  (1 + 0.1 * std::log(config_.yarn->factor))) > 1e-6)) {
      return Unknown("its factors of yarn");
    }
    return absl::OkStatus();
  }

  // Whether layer `i` of every `period` is the one that differs.
  static bool IsLast(size_t i, int64_t period) {
    return period > 0 && static_cast<int64_t>(i) % period == period - 1;
  }

  absl::Status CheckLayers() const {
    for (size_t i = 0; i < config_.rope.size(); ++i) {
      const bool none = config_.rope[i] == spec::LayerRope::kNone;
      if (none != IsLast(i, network_->no_rope_period)) {
        return Unknown("its layers without rope");
      }
    }
    // llama.cpp computes no windows of these: see MostTokens.
    if (network_->swa_period == 0) return absl::OkStatus();
    for (size_t i = 0; i < config_.sliding_window.size(); ++i) {
      if ((config_.sliding_window[i] == 0) != IsLast(i, network_->swa_period)) {
        return Unknown("layer_types");
      }
    }
    return absl::OkStatus();
  }

  bool HasLocalRope() const {
    return std::count(config_.rope.begin(), config_.rope.end(),
                      spec::LayerRope::kLocal) > 0;
  }

  int64_t Window() const {
    int64_t window = 0;
    for (const int64_t of_layer : config_.sliding_window) {
      window = std::max(window, of_layer);
    }
    return window;
  }

  // Up to a window's length a network without windows computes the same.
  int64_t MostTokens() const {
    const int64_t window = network_->swa_period == 0 ? Window() : 0;
    return window == 0 ? config_.max_position_embeddings
                       : std::min(window, config_.max_position_embeddings);
  }

  std::string Key(std::string_view name) const {
    return absl::StrCat(std::string(network_->name), ".", std::string(name));
  }

  void AddSizes() {
    const spec::ModelConfig& c = config_;
    metadata_.Text("general.architecture", network_->name);
    metadata_.Text("general.type", "model");
    constexpr int64_t kFileTypes[] = {1, 32, 7};  // as in Type
    metadata_.Count("general.file_type", kFileTypes[static_cast<int>(type_)]);
    metadata_.Count("general.quantization_version", 2);
    metadata_.Count("general.alignment", kAlignment);
    for (const auto& [name, value] :
         {std::pair{"block_count", c.num_hidden_layers},
          {"context_length", MostTokens()},
          {"embedding_length", c.hidden_size},
          {"feed_forward_length", c.intermediate_size},
          {"attention.head_count", c.num_attention_heads},
          {"attention.head_count_kv", c.num_key_value_heads},
          {"attention.key_length", c.head_dim},
          {"attention.value_length", c.head_dim},
          {"rope.dimension_count", c.rotary_size()},
          {"vocab_size", c.vocab_size}}) {
      metadata_.Count(Key(name), value);
    }
    metadata_.Number(Key("attention.layer_norm_rms_epsilon"), c.rms_norm_eps);
    if (network_->swa_period > 0 && Window() > 0) {
      metadata_.Count(Key("attention.sliding_window"), Window());
    }
    if (c.attention_softcap != 0) {
      metadata_.Number(Key("attn_logit_softcapping"), c.attention_softcap);
    }
    if (c.logits_softcap != 0) {
      metadata_.Number(Key("final_logit_softcapping"), c.logits_softcap);
    }
    if (!network_->scales) return;
    metadata_.Number(Key("attention.scale"), c.attention_scale);
    metadata_.Number(Key("embedding_scale"), c.embedding_scale);
    metadata_.Number(Key("residual_scale"), c.residual_scale);
    // llama.cpp divides by it.
    metadata_.Number(Key("logit_scale"), 1 / c.logits_scale);
  }

  void AddRope() {
    const spec::ModelConfig& c = config_;
    metadata_.Number(Key("rope.freq_base"), c.rope_theta);
    if (HasLocalRope()) {
      metadata_.Number(Key("rope.freq_base_swa"), c.local_rope_theta);
    }
    if (c.linear_rope_factor) {
      metadata_.Text(Key("rope.scaling.type"), "linear");
      metadata_.Number(Key("rope.scaling.factor"), *c.linear_rope_factor);
    }
    if (c.yarn) {
      metadata_.Text(Key("rope.scaling.type"), "yarn");
      metadata_.Number(Key("rope.scaling.factor"), c.yarn->factor);
      metadata_.Count(
          Key("rope.scaling.original_context_length"),
          static_cast<int64_t>(c.yarn->original_max_position_embeddings));
    }
    if (c.rope_scaling) AddFactors("rope_freqs.weight", Llama3Factors());
    if (!c.longrope) return;
    metadata_.Number(Key("rope.scaling.attn_factor"),
                     c.longrope->attention_factor);
    metadata_.Count(Key("rope.scaling.original_context_length"),
                    c.longrope->original_max_position_embeddings);
    AddFactors("rope_factors_long.weight", c.longrope->long_factor);
    AddFactors("rope_factors_short.weight", c.longrope->short_factor);
  }

  void AddFactors(const std::string& name, const std::vector<double>& factors) {
    const at::Tensor value = at::tensor(factors, at::kDouble).to(at::kFloat);
    plan_.push_back({name, "", value, value.sizes().vec()});
  }

  // Divisors of the frequencies (_compute_llama3_parameters).
  std::vector<double> Llama3Factors() const {
    const spec::Llama3RopeScaling& s = *config_.rope_scaling;
    std::vector<double> factors;
    for (int64_t i = 0; i < config_.rotary_size(); i += 2) {
      const double wavelength =
          2 * std::numbers::pi *
          std::pow(config_.rope_theta,
                   static_cast<double>(i) / config_.rotary_size());
      const double turns = s.original_max_position_embeddings / wavelength;
      const double smooth = (turns - s.low_freq_factor) /
                            (s.high_freq_factor - s.low_freq_factor);
      factors.push_back(smooth >= 1   ? 1
                        : smooth <= 0 ? s.factor
                                      : 1 / ((1 - smooth) / s.factor + smooth));
    }
    return factors;
  }

  absl::Status AddTensors() {
    for (const spec::Module& module : spec::Modules(config_)) {
      if (module.name == "lm_head" && config_.tie_word_embeddings) continue;
      std::vector<std::string> parts = {".weight"};
      if (module.bias) parts.push_back(".bias");
      for (const std::string& part : parts) {
        RETURN_IF_ERROR(AddTensor(module, part));
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddTensor(const spec::Module& module, const std::string& part) {
    Planned item;
    item.name = TensorName(config_, module.name) + part;
    item.stored = module.name + part;
    const auto* entry = weights_->Find(item.stored);
    if (entry == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          model_.string(), ": has no weight \"", item.stored, "\""));
    }
    item.shape = entry->shape;
    if (item.shape.size() > 1) item.type = MatrixType(item.shape.back());
    item.add_one =
        config_.norms_add_one && module.kind == spec::Module::Kind::kNorm;
    if (network_->pairs && absl::EndsWith(module.name, ".q_proj")) {
      item.heads = config_.num_attention_heads;
    } else if (network_->pairs && absl::EndsWith(module.name, ".k_proj")) {
      item.heads = config_.num_key_value_heads;
    }
    plan_.push_back(std::move(item));
    return absl::OkStatus();
  }

  TensorType MatrixType(int64_t columns) const {
    if (type_ == Type::kBf16) return kTensorBf16;
    const bool blocks = type_ == Type::kQ8_0 && columns % kBlock == 0;
    return blocks ? kTensorQ8_0 : kTensorF16;
  }

  absl::Status AddMerges(const Json& file, const Vocabulary& v,
                         const std::vector<int32_t>& ids);
  absl::Status AddTokenizer();

  const fs::path& model_;
  const Type type_;
  spec::ModelConfig config_;
  const Network* network_ = nullptr;
  std::unique_ptr<tensorfile::Weights> weights_;
  Metadata metadata_;
  std::vector<Planned> plan_;
};

// --- the tokenizer -----------------------------------------------------------

enum TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

constexpr char kSpace[] = "\xe2\x96\x81";  // "▁"

// What splits a text before its tokens are merged.
struct Splitter {
  std::string regex;
  bool digits = false;      // each digit alone
  bool byte_level = false;  // by GPT-2's regex
};

void Collect(const Json& step, Splitter& splitter) {
  if (!step.is_object()) return;  // null: none
  const std::string type = step.value("type", "");
  if (type == "Sequence") {
    for (const Json& part : step["pretokenizers"]) Collect(part, splitter);
  } else if (type == "Split" && step["pattern"].contains("Regex")) {
    splitter.regex += step["pattern"]["Regex"].get<std::string>();
  } else if (type == "Digits") {
    splitter.digits = step.value("individual_digits", false);
  } else if (type == "ByteLevel") {
    splitter.byte_level = step.value("use_regex", true);
  }
}

// The name by which llama.cpp knows the splitter of a byte-level BPE
// (llama-vocab.cpp, tokenizer.ggml.pre); "": none.
std::string NameOf(const Splitter& splitter, bool ignores_merges) {
  const std::string endings = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
  const std::string word = endings + R"(|[^\r\n\p{L}\p{N}]?\p{L}+|)";
  const auto rest = [](const std::string& breaks) {
    return R"(| ?[^\s\p{L}\p{N}]+[)" + breaks +
           R"(]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  };
  const std::string upper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])";
  const std::string lower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";
  const auto cased = [&](const std::string& end) {
    const std::string before = R"([^\r\n\p{L}\p{N}]?)";
    return before + upper + "*" + lower + "+" + end + "|" + before + upper +
           "+" + lower + "*" + end + "|";
  };
  const std::string three = R"(\p{N}{1,3})", one = R"(\p{N})";
  const std::string& regex = splitter.regex;
  if (regex.empty()) {
    if (!splitter.byte_level) return "";
    return splitter.digits ? "smollm" : "gpt-2";
  }
  if (splitter.digits || splitter.byte_level) return "";
  if (regex == word + three + rest(R"(\r\n)")) {
    return ignores_merges ? "llama-bpe" : "dbrx";
  }
  if (regex == word + one + rest(R"(\r\n)")) return "qwen2";
  if (regex == cased(endings + "?") + three + rest(R"(\r\n/)")) return "gpt-4o";
  if (regex == cased("") + one + rest(R"(\r\n/)")) return "tekken";
  return "";
}

// The tokens by id; ids without a token are unused ones.
absl::StatusOr<Vocabulary> ReadVocabulary(const Json& file, int64_t size) {
  Vocabulary v;
  for (int64_t i = 0; i < size; ++i)
    v.tokens.push_back(base::Cat("[PAD", i, "]"));
  v.types.assign(size, kUnused);
  const auto put = [&](const std::string& token, int64_t id,
                       TokenType type) -> absl::Status {
    if (id < 0 || id >= size) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tokenizer.json: \"", base::Quotable(token), "\" has the id ", id,
          ", and the model has ", size, " embeddings"));
    }
    v.tokens[id] = token;
    v.types[id] = type;
    v.ids[token] = static_cast<int32_t>(id);
    return absl::OkStatus();
  };
  const Json& model = file["model"];
  const std::string unknown = model.value("unk_token", Json()).is_string()
                                  ? model["unk_token"].get<std::string>()
                                  : "";
  const bool bytes = model.value("byte_fallback", false);
  for (const auto& [token, id] : model["vocab"].items()) {
    const bool byte = bytes && token.size() == 6 &&
                      absl::StartsWith(token, "<0x") && token.back() == '>';
    RETURN_IF_ERROR(put(token, id.get<int64_t>(), byte ? kByte : kNormal));
  }
  for (const Json& added : file.value("added_tokens", Json::array())) {
    const std::string token = added["content"];
    RETURN_IF_ERROR(put(token, added["id"].get<int64_t>(),
                        token == unknown                ? kUnknown
                        : added.value("special", false) ? kControl
                                                        : kUserDefined));
  }
  return v;
}

// The two halves of each merge.
std::vector<std::pair<std::string, std::string>> ReadMerges(const Json& model) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (const Json& merge : model["merges"]) {
    if (merge.is_array()) {
      merges.emplace_back(merge[0], merge[1]);
      continue;
    }
    const std::string text = merge;
    const size_t space = text.find(' ', 1);
    merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return merges;
}

// llama.cpp's SentencePiece merges the pair with the highest score first: the
// one that the tokenizer merges first.
std::vector<float> Scores(
    const Vocabulary& v,
    const std::vector<std::pair<std::string, std::string>>& merges) {
  std::vector<float> scores(v.tokens.size(),
                            -static_cast<float>(merges.size()));
  std::set<int32_t> seen;
  for (size_t i = 0; i < merges.size(); ++i) {
    const auto id = v.ids.find(merges[i].first + merges[i].second);
    if (id == v.ids.end() || !seen.insert(id->second).second) continue;
    scores[id->second] = -static_cast<float>(i);
  }
  return scores;
}

// `ids` are those of "a".
absl::Status Converter::AddMerges(const Json& file, const Vocabulary& v,
                                  const std::vector<int32_t>& ids) {
  const auto merges = ReadMerges(file["model"]);
  if (file["model"].value("byte_fallback", false)) {
    metadata_.Text("tokenizer.ggml.model", "llama");
    metadata_.Text("tokenizer.ggml.pre", "default");
    metadata_.Numbers("tokenizer.ggml.scores", Scores(v, merges));
    metadata_.Flag("tokenizer.ggml.add_space_prefix",
                   std::any_of(ids.begin(), ids.end(), [&](int32_t id) {
                     return absl::StartsWith(v.tokens[id], kSpace);
                   }));
    return absl::OkStatus();
  }
  Splitter splitter;
  Collect(file.value("pre_tokenizer", Json::object()), splitter);
  const std::string pre =
      NameOf(splitter, file["model"].value("ignore_merges", false));
  if (pre.empty()) return Unknown("its tokenizer's pre_tokenizer");
  metadata_.Text("tokenizer.ggml.model", "gpt2");
  metadata_.Text("tokenizer.ggml.pre", pre);
  std::vector<std::string> lines;
  for (const auto& [left, right] : merges) {
    lines.push_back(absl::StrCat(left, " ", right));
  }
  metadata_.Texts("tokenizer.ggml.merges", lines);
  return absl::OkStatus();
}

absl::Status Converter::AddTokenizer() {
  const fs::path path = model_ / "tokenizer.json";
  ASSIGN_OR_RETURN(const std::string text, base::ReadFile(path));
  ASSIGN_OR_RETURN(const auto tokenizer,
                   text::Tokenizer::FromFolder(model_.string()));
  ASSIGN_OR_RETURN(const auto folder, text::ReadFolderText(model_.string()));
  const Json file = base::ParseTree<Json>(text);
  if (file["model"].value("type", "") != "BPE") {
    return Unknown("its tokenizer is no BPE");
  }
  ASSIGN_OR_RETURN(Vocabulary v, ReadVocabulary(file, config_.vocab_size));
  // Those that the tokenizer's class adds to the file's.
  for (const auto& [name, token] : folder.special_tokens) {
    const auto id = tokenizer->TokenToId(token);
    if (!id || *id >= config_.vocab_size || v.types[*id] != kUnused) continue;
    v.tokens[*id] = token;
    v.types[*id] = kControl;
  }
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                   tokenizer->EncodeIds("a", /*add_special_tokens=*/true));
  if (ids.empty() || std::any_of(ids.begin(), ids.end(), [&](int32_t id) {
        return id >= config_.vocab_size;
      })) {
    return Unknown("its tokenizer has no token for a letter");
  }
  RETURN_IF_ERROR(AddMerges(file, v, ids));
  metadata_.Texts("tokenizer.ggml.tokens", v.tokens);
  metadata_.Counts("tokenizer.ggml.token_type", v.types);
  for (const auto& [key, name] : {std::pair{"bos", "bos_token"},
                                  {"eos", "eos_token"},
                                  {"unknown", "unk_token"},
                                  {"padding", "pad_token"}}) {
    const auto token = folder.special_tokens.find(name);
    if (token == folder.special_tokens.end()) continue;
    const auto id = tokenizer->TokenToId(token->second);
    if (!id) continue;
    metadata_.Count(absl::StrCat("tokenizer.ggml.", key, "_token_id"), *id);
  }
  metadata_.Flag("tokenizer.ggml.add_bos_token",
                 tokenizer->bos_id() && ids[0] == *tokenizer->bos_id());
  const auto chat = folder.chat_templates.find("default");
  if (chat != folder.chat_templates.end()) {
    metadata_.Text("tokenizer.chat_template", chat->second);
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<Type> TypeNamed(std::string_view name) {
  if (name == "f16") return Type::kF16;
  if (name == "bf16") return Type::kBf16;
  if (name == "q8_0") return Type::kQ8_0;
  return std::nullopt;
}

absl::Status Write(const fs::path& model, const fs::path& file, Type type) {
  at::NoGradGuard no_grad;
  return Converter(model, type).Run(file);
}

}  // namespace mpsd::gguf
