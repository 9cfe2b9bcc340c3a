// SPDX-License-Identifier: Apache-2.0
#include "core/lora/merge.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/full/model_folder.h"
#include "core/lora/adapted_model.h"
#include "core/lora/compare_logits.h"
#include "core/model/tied_head.h"
#include "core/model/weight_reader.h"
#include "core/spec/modules.h"
#include "core/ckpt/sharded_writer.h"

namespace mpsd::merge {
namespace {

namespace fs = std::filesystem;
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
    absl::Status s = Plan();
    if (s.ok()) s = Write(folder);
    if (s.ok()) s = WriteBeside(folder);
    if (!s.ok()) return s;
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
    absl::Status s = full::WriteConfig(options_.model, folder, result);
    if (s.ok()) s = full::CopyTokenizer(options_.model, folder);
    return s;
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
  auto report = Merger(options, adapted, progress).Run(staged.staging());
  if (!report.ok()) return report;
  RETURN_IF_ERROR(staged.Commit());
  return report;
}

}  // namespace mpsd::merge
