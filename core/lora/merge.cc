// SPDX-License-Identifier: Apache-2.0
#include "core/lora/merge.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/ckpt/safetensors_writer.h"
#include "core/full/model_card.h"
#include "core/full/model_folder.h"
#include "core/lora/lora.h"
#include "core/lora/peft_folder.h"
#include "core/model/classifier.h"
#include "core/model/decoder.h"
#include "core/model/weight_reader.h"
#include "core/spec/modules.h"

namespace mpsd::merge {
namespace {

namespace fs = std::filesystem;
using lora::kPeftPrefix;
using lora::NameOfA;
using lora::NameOfB;

}  // namespace

absl::StatusOr<AdaptedModel> AdaptedModel::Open(const fs::path& model,
                                                const fs::path& adapter) {
  AdaptedModel adapted;
  adapted.model_ = model;
  adapted.adapter_ = adapter;
  ASSIGN_OR_RETURN(adapted.config_, spec::ReadModelConfig(model.string()));
  ASSIGN_OR_RETURN(adapted.lora_, lora::ReadPeftConfig(adapter));
  ASSIGN_OR_RETURN(adapted.weights_, tensorfile::Weights::Open(model));
  ASSIGN_OR_RETURN(adapted.file_, tensorfile::SafetensorsFile::Open(
                                      adapter / "adapter_model.safetensors"));
  RETURN_IF_ERROR(adapted.FindClassLabels());
  RETURN_IF_ERROR(adapted.FindHead());
  adapted.lora_ =
      spec::EffectiveLora(std::move(adapted.lora_), adapted.config_);
  ASSIGN_OR_RETURN(adapted.targets_,
                   spec::MatchTargets(adapted.lora_, adapted.config_));
  RETURN_IF_ERROR(adapted.CheckTied());
  RETURN_IF_ERROR(adapted.CheckComplete());
  return adapted;
}

// The task: decided by a head that the adapter saved, else by the model's
// architecture.
absl::Status AdaptedModel::FindClassLabels() {
  for (const char* head : {"score", "classifier", "classifier.out_proj"}) {
    const auto* saved = FindSaved(absl::StrCat(head, ".weight"));
    if (saved != nullptr) config_.num_labels = saved->shape[0];
  }
  for (const std::string& name : config_.architectures) {
    if (config_.num_labels > 0 || !name.ends_with("Classification")) continue;
    config_.num_labels = config_.head.num_labels.value_or(2);
  }
  if (config_.family == spec::Family::kVision) {
    task_ = spec::Task::kImageCls;
  } else if (config_.num_labels > 0) {
    task_ = spec::Task::kSeqCls;
  }
  ASSIGN_OR_RETURN(auto labels, lora::ReadLabels(adapter_));
  if (!labels || config_.num_labels == 0) return absl::OkStatus();
  const int64_t count = std::ssize(labels->names);
  if (count != config_.num_labels) {
    return absl::InvalidArgumentError(
        absl::StrCat(adapter_.string(), ": labels.json names ", count,
                     " labels and the head has ", config_.num_labels,
                     "; copy both files from the run that made the adapter"));
  }
  config_.head.label_names = std::move(labels->names);
  config_.head.problem_type = std::move(labels->problem_type);
  return absl::OkStatus();
}

// Decides as the loading of the network does: the file's tensors say what is
// tied.
absl::Status AdaptedModel::FindHead() {
  if (!config_.tie_word_embeddings || config_.num_labels > 0) {
    return absl::OkStatus();
  }
  constexpr char kEmbedding[] = "model.embed_tokens.weight";
  const std::string stored =
      model::WeightReader({weights_.get()}, "model.", 0).StoredName(kEmbedding);
  const auto* entry = weights_->Find(stored);
  ASSIGN_OR_RETURN(
      const auto found,
      model::FindTiedHead(*weights_, stored,
                          entry == nullptr ? at::kFloat : entry->dtype));
  head_is_embedding_ = found == model::TiedHead::kHead;
  if (found == model::TiedHead::kBoth) config_.tie_word_embeddings = false;
  return absl::OkStatus();
}

// A tied head has no weight of its own: changing one of the two would break the
// tie.
absl::Status AdaptedModel::CheckTied() const {
  if (!config_.tie_word_embeddings || config_.num_labels > 0) {
    return absl::OkStatus();
  }
  bool touched = FindSaved("lm_head.weight") != nullptr ||
                 FindSaved("model.embed_tokens.weight") != nullptr;
  for (const auto& target : targets_) touched |= target.name == "lm_head";
  if (!touched) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(adapter_.string(),
                   ": changes lm_head or embed_tokens, which ", model_.string(),
                   " ties to each other (tie_word_embeddings); such an adapter "
                   "cannot be merged, load it with PEFT on top of the model"));
}

// Rejects an adapter with a tensor that has no place in the model.
absl::Status AdaptedModel::CheckComplete() const {
  std::set<std::string> unknown;
  for (const auto& [name, entry] : file_->entries()) unknown.insert(name);
  for (const auto& target : targets_) {
    unknown.erase(NameOfA(target.name));
    unknown.erase(NameOfB(target.name));
    const std::string weight = target.name + ".weight";
    const auto* own = weights_->Find(weight);
    if (own == nullptr) continue;
    if (unknown.erase(lora::NameOfBaseLayer(target.name)) == 0) continue;
    ASSIGN_OR_RETURN(auto loaded,
                     weights_->Load(weight, own->shape, at::kCPU, own->dtype));
    RETURN_IF_ERROR(
        lora::CheckBaseLayer(*file_, adapter_.string(), target.name, loaded));
  }
  ASSIGN_OR_RETURN(auto saved, spec::MatchModulesToSave(lora_, config_));
  for (const spec::Module& m : saved) {
    unknown.erase(absl::StrCat(kPeftPrefix, m.name, ".weight"));
    unknown.erase(absl::StrCat(kPeftPrefix, m.name, ".bias"));
    unknown.erase(kPeftPrefix + m.name);
  }
  if (unknown.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(adapter_.string(), ": ", *unknown.begin(),
                   " belongs to no adapted module of ", model_.string(),
                   "; is it another model's adapter?"));
}

absl::StatusOr<LowRank> AdaptedModel::WeightChange(
    const spec::TargetMatch& target) const {
  ASSIGN_OR_RETURN(auto a,
                   file_->Load(NameOfA(target.name), at::kCPU, at::kFloat));
  ASSIGN_OR_RETURN(auto b,
                   file_->Load(NameOfB(target.name), at::kCPU, at::kFloat));
  const std::vector<int64_t> a_shape = {target.r, target.in_features};
  const std::vector<int64_t> b_shape = {target.out_features, target.r};
  if (a.sizes() != at::IntArrayRef(a_shape) ||
      b.sizes() != at::IntArrayRef(b_shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat(adapter_.string(), ": A and B of ", target.name,
                     " have shapes [", absl::StrJoin(a.sizes().vec(), ", "),
                     "] and [", absl::StrJoin(b.sizes().vec(), ", "),
                     "], this model needs [", absl::StrJoin(a_shape, ", "),
                     "] and [", absl::StrJoin(b_shape, ", "), "]"));
  }
  return LowRank{std::move(a), std::move(b), target.scaling};
}

const tensorfile::TensorEntry* AdaptedModel::FindSaved(
    const std::string& weight) const {
  const auto it = file_->entries().find(kPeftPrefix + weight);
  return it == file_->entries().end() ? nullptr : &it->second;
}

absl::StatusOr<at::Tensor> AdaptedModel::LoadSaved(const std::string& weight,
                                                   at::ScalarType dtype) const {
  return file_->Load(kPeftPrefix + weight, at::kCPU, dtype);
}

std::vector<std::string> AdaptedModel::LabelNames() const {
  const auto count = static_cast<size_t>(config_.num_labels);
  if (config_.head.label_names.size() == count) {
    return config_.head.label_names;
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(absl::StrCat("LABEL_", i));
  return names;
}

std::string AdaptedModel::ProblemType() const {
  if (!config_.head.problem_type.empty()) return config_.head.problem_type;
  return config_.num_labels == 1 ? "regression" : "single_label_classification";
}

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
absl::Status HangAdapter(const AdaptedModel& adapted, model::Network& network) {
  static constexpr bool kTraining = false;
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
    ASSIGN_OR_RETURN(*weight.tensor,
                     adapted.LoadSaved(weight.name, at::kFloat));
  }
  return absl::OkStatus();
}

absl::StatusOr<Loaded> Load(const tensorfile::Weights& weights,
                            const spec::ModelConfig& config) {
  const model::WeightSource source{&weights, at::kCPU, at::kFloat,
                                   /*ignore_mismatched_heads=*/true};
  Loaded loaded;
  if (config.num_labels > 0) {
    ASSIGN_OR_RETURN(loaded.classifier,
                     model::Classifier::Load(source, config));
  } else {
    ASSIGN_OR_RETURN(loaded.decoder, model::Decoder::Load(source, config));
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
  const int64_t length = std::min(kTokens, config.max_row_tokens());
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
  RETURN_IF_ERROR(HangAdapter(adapted, loaded.network()));
  return Logits(loaded, config);
}

absl::StatusOr<at::Tensor> MergedLogits(const fs::path& folder,
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
                                         const fs::path& folder,
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

namespace {

using Progress = std::function<void(const std::string&, double)>;

// A weight of the result and its sources.
struct PlannedWeight {
  tensorfile::PlannedTensor planned;
  std::string name;    // its name in Transformers
  std::string stored;  // in the model's file; empty: only in the adapter
  bool saved = false;  // the adapter replaces it as a whole
  const spec::TargetMatch* target = nullptr;  // null: not adapted
};

std::vector<std::string> WeightsOf(const spec::Module& m) {
  if (m.kind == spec::Module::Kind::kParameter) return {m.name};
  std::vector<std::string> names = {m.name + ".weight"};
  if (m.bias) names.push_back(m.name + ".bias");
  return names;
}

std::string BasePrefix(const spec::ModelConfig& config) {
  if (config.family == spec::Family::kDecoder) return "model.";
  if (config.family == spec::Family::kVision) return "vit.";
  return config.model_type + ".";
}

class Merger {
 public:
  Merger(const MergeOptions& options, const AdaptedModel& adapted,
         Progress progress)
      : options_(options),
        adapted_(adapted),
        progress_(std::move(progress)),
        names_({&adapted.weights()}, BasePrefix(adapted.config()), 0) {}

  absl::StatusOr<MergeReport> Run(const fs::path& folder) {
    RETURN_IF_ERROR(Plan());
    RETURN_IF_ERROR(Write(folder));
    RETURN_IF_ERROR(WriteBeside(folder));
    ReportProgress("comparing logits", 0);
    ASSIGN_OR_RETURN(auto compared, CompareLogits(adapted_, folder, dtype_,
                                                  options_.max_compared_bytes));
    report_.compared_layers = compared.layers;
    report_.logit_error = compared.error;
    return report_;
  }

 private:
  void ReportProgress(const std::string& what, double share) const {
    if (progress_) progress_(what, share);
  }

  absl::Status Plan() {
    const spec::ModelConfig& config = adapted_.config();
    std::map<std::string, const spec::TargetMatch*> targets;
    for (const auto& t : adapted_.targets()) targets[t.name + ".weight"] = &t;
    for (const spec::Module& m : spec::Modules(config)) {
      const bool tied = m.name == "lm_head" && config.tie_word_embeddings;
      if (tied) continue;
      for (const std::string& name : WeightsOf(m)) {
        PlannedWeight item;
        item.name = name;
        const auto target = targets.find(name);
        if (target != targets.end()) item.target = target->second;
        RETURN_IF_ERROR(Place(item));
        planned_weights_.push_back(std::move(item));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Place(PlannedWeight& item) {
    const auto* saved = adapted_.FindSaved(item.name);
    const std::string kept = spec::StoredName(adapted_.config(), item.name);
    const bool both = adapted_.head_is_embedding() &&
                      item.name == "model.embed_tokens.weight";
    const std::string name =
        both ? model::kHeadWeight : names_.StoredName(kept);
    const auto* stored = adapted_.weights().Find(name);
    item.saved = saved != nullptr;
    if (stored == nullptr && saved == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(options_.model.string(), ": has no weight \"", item.name,
                       "\", and the adapter has none"));
    }
    if (stored != nullptr) {
      item.stored = name;
      dtype_ = options_.dtype.value_or(stored->dtype);
      if (!at::isFloatingType(stored->dtype)) {
        return absl::UnimplementedError(
            absl::StrCat(options_.model.string(), ": \"", item.name,
                         "\" is stored as ", stored->dtype_name,
                         "; merge into the model it was quantized from"));
      }
    }
    item.planned = {kept, dtype_,
                    saved != nullptr ? saved->shape : stored->shape};
    return absl::OkStatus();
  }

  absl::Status Write(const fs::path& folder) {
    std::vector<tensorfile::PlannedTensor> plan;
    for (const PlannedWeight& item : planned_weights_) {
      plan.push_back(item.planned);
      report_.bytes += item.planned.bytes();
    }
    ASSIGN_OR_RETURN(auto writer, tensorfile::ShardedWriter::Create(
                                      folder, plan, options_.max_shard_bytes));
    report_.shards = writer->shard_count();
    for (size_t i = 0; i < planned_weights_.size(); ++i) {
      ReportProgress("merging",
                     static_cast<double>(i) / planned_weights_.size());
      ASSIGN_OR_RETURN(auto tensor, Make(planned_weights_[i]));
      RETURN_IF_ERROR(writer->Append(tensor));
    }
    return writer->Finish();
  }

  absl::StatusOr<at::Tensor> Make(const PlannedWeight& item) {
    const at::ScalarType dtype = item.planned.dtype;
    if (item.saved) {
      ++report_.replaced_weights;
      return adapted_.LoadSaved(item.name, dtype);
    }
    auto weight = adapted_.weights().Load(item.stored, item.planned.shape,
                                          at::kCPU, dtype);
    if (!weight.ok() || item.target == nullptr) return weight;
    ASSIGN_OR_RETURN(auto change, adapted_.WeightChange(*item.target));
    ++report_.merged_weights;
    const at::Tensor base = weight->to(at::kFloat, /*non_blocking=*/false,
                                       /*copy=*/true);
    // As in PEFT the sum is computed in fp32 and rounded to W's dtype at the
    // end.
    weight->add_(at::matmul(change.b, change.a) * change.scaling);
    RETURN_IF_ERROR(Check(item.name, base, change, *weight));
    return weight;
  }

  // Checks the merged weight on random inputs x, for every row of outputs:
  //   |merged x − (W x + s B A x)| ≤ limit · |merged| |x|
  // where `limit` covers the rounding of the weight and of the sums.
  absl::Status Check(const std::string& name, const at::Tensor& base,
                     const LowRank& change, const at::Tensor& merged) const {
    const at::Tensor x = at::randn({base.size(1), 4});
    const at::Tensor exact =
        at::matmul(base, x) +
        at::matmul(change.b, at::matmul(change.a, x)) * change.scaling;
    const at::Tensor wide = merged.to(at::kFloat);
    const at::Tensor error = (at::matmul(wide, x) - exact).abs();
    const at::Tensor size = at::matmul(wide.abs(), x.abs());
    const double limit = RoundingOf(merged.scalar_type()) + 1e-4;
    if ((error <= size * limit + 1e-30).all().item<bool>()) {
      return absl::OkStatus();
    }
    return absl::DataLossError(
        absl::StrCat("\"", name,
                     "\": the merged weight differs from base and adapter by "
                     "more than rounding; is the adapter finite?"));
  }

  absl::Status WriteBeside(const fs::path& folder) {
    const full::ResultConfig result{adapted_.config(), adapted_.task(),
                                    adapted_.task() == spec::Task::kCausalLm
                                        ? std::vector<std::string>()
                                        : adapted_.LabelNames(),
                                    adapted_.ProblemType(), dtype_};
    RETURN_IF_ERROR(full::WriteConfig(options_.model, folder, result));
    RETURN_IF_ERROR(full::ConvertCard(options_.adapter, folder,
                                      full::CardLibrary::kTransformers));
    return full::CopyTokenizer(options_.model, folder);
  }

  const MergeOptions& options_;
  const AdaptedModel& adapted_;
  const Progress progress_;
  const model::WeightReader names_;
  at::ScalarType dtype_ = at::kFloat;  // dtype of the weight placed last
  std::vector<PlannedWeight> planned_weights_;
  MergeReport report_;
};

}  // namespace

absl::StatusOr<MergeReport> Merge(const MergeOptions& options,
                                  const Progress& progress) {
  at::NoGradGuard no_grad;
  ASSIGN_OR_RETURN(auto adapted,
                   AdaptedModel::Open(options.model, options.adapter));
  std::error_code error;
  if (fs::exists(options.out, error) &&
      fs::equivalent(options.out, options.model, error)) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.out.string(), ": is the model itself; choose another folder"));
  }
  ASSIGN_OR_RETURN(auto staged, base::StagedFolder::Create(options.out));
  ASSIGN_OR_RETURN(auto report,
                   Merger(options, adapted, progress).Run(staged.staging()));
  RETURN_IF_ERROR(staged.Commit());
  return report;
}

}  // namespace mpsd::merge
