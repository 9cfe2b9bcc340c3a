// SPDX-License-Identifier: Apache-2.0
#include "core/model/weight_reader.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/model/quant.h"

namespace mpsd::model {
namespace {

constexpr size_t kShown = 8;
constexpr char kUntied[] =
    "config.json says tie_word_embeddings, but the file's lm_head.weight is "
    "not its embedding: the two are not tied, as in Transformers 5";

std::string FirstNames(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", names[i]);
  }
  if (names.size() > kShown) {
    absl::StrAppend(&text, " and ", names.size() - kShown, " more");
  }
  return text;
}

}  // namespace

std::vector<std::string> Warnings(const LoadReport& report) {
  std::vector<std::string> warnings;
  if (!report.unused.empty()) {
    warnings.push_back(absl::StrCat(
        "the model's file has ", report.unused.size(),
        " tensors that the network does not: ", FirstNames(report.unused)));
  }
  if (!report.missing.empty()) {
    warnings.push_back(
        absl::StrCat("the model's file lacks ", report.missing.size(),
                     " tensors of the network, which are drawn at random: ",
                     FirstNames(report.missing)));
  }
  if (report.untied) warnings.emplace_back(kUntied);
  return warnings;
}

// transformers 5.23, modeling_utils.py, _adjust_missing_and_unexpected_keys.
bool IsOldBuffer(std::string_view name, spec::Family family) {
  constexpr std::string_view kPositions = ".position_ids";
  switch (family) {
    case spec::Family::kDecoder:
      return name.find("rotary_emb.inv_freq") != std::string_view::npos;
    case spec::Family::kEncoder:
      return name == kPositions.substr(1) || name.ends_with(kPositions);
    case spec::Family::kVision:
      break;
  }
  return false;
}

namespace {

// "a.LayerNorm.weight" → "a.LayerNorm.gamma", as in BERT's first files.
std::string OldName(const std::string& name) {
  for (const auto& [now, old] :
       {std::pair{".weight", ".gamma"}, std::pair{".bias", ".beta"}}) {
    if (name.ends_with(now)) {
      return name.substr(0, name.size() - std::string_view(now).size()) + old;
    }
  }
  return name;
}

// nn.init.trunc_normal_(t, 0, deviation, -2, 2) of torch 2.15, number for
// number, for deviations that leave most of the curve within the bounds.
at::Tensor TruncatedNormal(at::IntArrayRef shape, double deviation) {
  at::Tensor t = at::empty(shape, at::kFloat).normal_(0, deviation);
  for (;;) {
    const at::Tensor outside = t.abs() > 2;
    if (!outside.any().item<bool>()) return t;
    t = at::where(outside, at::empty_like(t).normal_(0, deviation), t);
  }
}

quant::Options FormatOf(const spec::QuantizationSpec& spec) {
  return {spec.load_in_8bit ? quant::Format::kInt8 : quant::Format::kNf4,
          spec.bnb_4bit_use_double_quant};
}

}  // namespace

WeightReader::WeightReader(const WeightSource& source, std::string base_prefix,
                           double initializer_range, Initial linears)
    : source_(source),
      base_prefix_(std::move(base_prefix)),
      initializer_range_(initializer_range),
      linears_(linears) {}

std::string WeightReader::StoredName(const std::string& name) const {
  std::vector<std::string> names = {name, OldName(name)};
  if (!base_prefix_.empty() && name.starts_with(base_prefix_)) {
    const std::string bare = name.substr(base_prefix_.size());
    names.insert(names.end(), {bare, OldName(bare)});
  }
  for (const std::string& candidate : names) {
    if (source_.weights->Contains(candidate)) return candidate;
  }
  return name;
}

bool WeightReader::Contains(const std::string& name) const {
  return source_.weights && source_.weights->Contains(StoredName(name));
}

at::Tensor WeightReader::Draw(at::IntArrayRef shape, Initial initial) const {
  at::Tensor t;
  const at::TensorOptions options =
      source_.draw_on_device
          ? at::TensorOptions(source_.device).dtype(source_.dtype)
          : at::TensorOptions().dtype(at::kFloat);
  switch (initial) {
    case Initial::kNormal:
      t = at::empty(shape, options).normal_(0, initializer_range_);
      break;
    case Initial::kTruncatedNormal:
      t = TruncatedNormal(shape, initializer_range_);
      break;
    case Initial::kZero:
      t = at::zeros(shape, at::kFloat);
      break;
    case Initial::kOne:
      t = at::ones(shape, at::kFloat);
      break;
  }
  return t.to(source_.device, source_.dtype);
}

at::Tensor WeightReader::Tensor(const std::string& name, at::IntArrayRef shape,
                                Initial initial) {
  if (!status_.ok()) return {};
  if (source_.weights == nullptr) return Draw(shape, initial);
  const std::string stored = StoredName(name);
  MarkUsed(stored);
  auto tensor =
      source_.weights->Load(stored, shape, source_.device, source_.dtype);
  if (!tensor.ok()) {
    status_ = tensor.status();
    return {};
  }
  return *std::move(tensor);
}

Linear WeightReader::MakeLinear(const std::string& name, int64_t out,
                                int64_t in, bool bias) {
  Linear linear;
  linear.name = name;
  ReadWeight(linear, out, in);
  if (bias) linear.bias = Tensor(name + ".bias", {out}, Initial::kZero);
  return linear;
}

void WeightReader::ReadWeight(Linear& linear, int64_t out, int64_t in) {
  const std::string name = linear.name + ".weight";
  const bool quantize = spec::Quantizes(source_.quantization, linear.name);
  const bool from_file = source_.weights != nullptr && status_.ok();
  const std::string stored = from_file ? StoredName(name) : name;
  if (from_file) MarkUsed(stored);
  if (from_file && quant::IsStored(*source_.weights, stored)) {
    auto weight =
        quant::LoadStored(*source_.weights, stored, out, in, source_.device);
    if (weight.ok()) linear.quantized = *std::move(weight);
    if (!weight.ok()) status_ = weight.status();
    return;
  }
  if (!quantize) {
    linear.weight = Tensor(name, {out, in}, linears_);
    return;
  }
  at::Tensor dense;
  if (from_file) {
    auto loaded =
        source_.weights->Load(stored, {out, in}, at::kCPU, source_.dtype);
    if (loaded.ok()) dense = *std::move(loaded);
    if (!loaded.ok()) status_ = loaded.status();
  } else {
    dense = Tensor(name, {out, in}, linears_);
  }
  if (!dense.defined()) return;
  linear.quantized = quant::Quantize(
      dense.to(at::kCPU), FormatOf(source_.quantization), source_.device);
}

Embedding WeightReader::MakeEmbedding(const std::string& name, int64_t rows,
                                      int64_t width,
                                      std::optional<int64_t> padding) {
  Embedding embedding{name, Tensor(name + ".weight", {rows, width})};
  if (padding && *padding >= -rows && *padding < rows) {
    embedding.padding_row = *padding < 0 ? *padding + rows : *padding;
    if (source_.weights == nullptr) {
      embedding.weight.select(0, embedding.padding_row).zero_();
    }
  }
  return embedding;
}

LayerNorm WeightReader::MakeLayerNorm(const std::string& name, int64_t size,
                                      double eps) {
  return {name, Tensor(name + ".weight", {size}, Initial::kOne),
          Tensor(name + ".bias", {size}, Initial::kZero), eps};
}

RmsNorm WeightReader::MakeRmsNorm(const std::string& name, int64_t size,
                                  double eps, bool adds_one) {
  RmsNorm norm{name,
               Tensor(name + ".weight", {size},
                      adds_one ? Initial::kZero : Initial::kOne),
               eps};
  if (adds_one && norm.weight.defined()) {
    norm.one_more =
        (norm.weight.to(at::kFloat) + 1).to(norm.weight.scalar_type());
  }
  return norm;
}

at::Tensor WeightReader::HeadTensor(const std::string& module,
                                    const std::string& name,
                                    at::IntArrayRef shape, Initial initial) {
  if (!status_.ok()) return {};
  if (source_.weights == nullptr) return Draw(shape, initial);
  const auto* stored = source_.weights->Find(StoredName(name));
  const bool fits = stored && at::IntArrayRef(stored->shape) == shape;
  if (fits) return Tensor(name, shape, initial);
  if (stored && !source_.ignore_mismatched_heads) {
    status_ = absl::InvalidArgumentError(absl::StrCat(
        "weight \"", name, "\" has shape [", absl::StrJoin(stored->shape, ", "),
        "], the labels of this job need [", absl::StrJoin(shape, ", "),
        "]: name the model's own labels in classification.label_names, or set "
        "classification.ignore_mismatched_sizes to train a new head"));
    return {};
  }
  // The file's head has another shape: reported as used, but not read.
  if (stored) MarkUsed(StoredName(name));
  missing_.push_back(name);
  if (fresh_.empty() || fresh_.back() != module) fresh_.push_back(module);
  return Draw(shape, initial);
}

LoadReport WeightReader::Report(spec::Family family) const {
  LoadReport report;
  report.missing = missing_;
  if (source_.weights == nullptr) return report;
  // Tensors that belong to a quantised weight: "….weight.absmax", "….SCB".
  const auto is_part = [&](const std::string& name) {
    for (size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0;
         dot = name.rfind('.', dot - 1)) {
      const std::string head = name.substr(0, dot);
      if (used_.contains(head)) return true;
      const bool state =
          name.compare(dot, std::string::npos, ".SCB") == 0 ||
          name.compare(dot, std::string::npos, ".weight_format") == 0;
      if (state && used_.contains(head + ".weight")) return true;
    }
    return false;
  };
  for (const std::string& name : source_.weights->names()) {
    if (used_.contains(name) || IsOldBuffer(name, family) || is_part(name)) {
      continue;
    }
    report.unused.push_back(name);
  }
  return report;
}

Linear WeightReader::MakeHead(const std::string& name, int64_t out, int64_t in,
                              bool bias) {
  Linear linear;
  linear.name = name;
  linear.weight = HeadTensor(name, name + ".weight", {out, in}, linears_);
  if (bias) {
    linear.bias = HeadTensor(name, name + ".bias", {out}, Initial::kZero);
  }
  return linear;
}

absl::StatusOr<TiedHead> FindTiedHead(const tensorfile::Weights& weights,
                                      const std::string& embedding,
                                      at::ScalarType dtype) {
  const tensorfile::TensorEntry* rows = weights.Find(embedding);
  const tensorfile::TensorEntry* head = weights.Find(kHeadWeight);
  if (head == nullptr) return TiedHead::kEmbedding;
  if (rows == nullptr) return TiedHead::kHead;
  // Equal bytes need no loading. Different bytes may still be equal values, if
  // one of the tensors has another dtype in the file.
  if (weights.SameBytes(embedding, kHeadWeight)) return TiedHead::kEmbedding;
  if (rows->shape != head->shape) return TiedHead::kBoth;
  ASSIGN_OR_RETURN(const auto a,
                   weights.Load(embedding, rows->shape, at::kCPU, dtype));
  ASSIGN_OR_RETURN(const auto b,
                   weights.Load(kHeadWeight, head->shape, at::kCPU, dtype));
  return at::equal(a, b) ? TiedHead::kEmbedding : TiedHead::kBoth;
}

}  // namespace mpsd::model
