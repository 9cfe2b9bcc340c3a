// SPDX-License-Identifier: Apache-2.0
#include "core/lora/lora.h"

#include <ATen/ATen.h>

#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/lora/peft_folder.h"
#include "core/model/products.h"

namespace mpsd::lora {
namespace {

using Initial = std::vector<std::pair<std::string, at::Tensor>>;

// nn.Linear's default, which PEFT's reset_lora_parameters applies again.
at::Tensor InitialA(int64_t r, int64_t in) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(in));
  return at::empty({r, in}, at::kFloat).uniform_(-bound, bound);
}

// "model.layers.0.mlp.up_proj.weight" → "model.layers.0.mlp.up_proj".
std::string ModuleOf(const std::string& weight) {
  return weight.substr(0, weight.rfind('.'));
}

// The weights of the modules in modules_to_save.
absl::StatusOr<std::vector<model::NamedWeight>> SavedWeights(
    model::Network& model, const spec::LoraSpec& spec) {
  ASSIGN_OR_RETURN(auto modules,
                   spec::MatchModulesToSave(spec, model.config()));
  std::set<std::string> names;
  for (const spec::Module& m : modules) names.insert(m.name);
  std::vector<model::NamedWeight> chosen;
  for (const auto& weight : model.NamedWeights()) {
    if (names.contains(ModuleOf(weight.name))) chosen.push_back(weight);
  }
  return chosen;
}

// PEFT's "all-linear" also matches linears within a head, which modules_to_save
// then cannot wrap: if the model has such a head, the names are written out.
spec::LoraSpec AsWritten(spec::LoraSpec spec, const PeftIdentity& identity,
                         const std::vector<spec::TargetMatch>& targets) {
  if (identity.task_type == "CAUSAL_LM" ||
      !std::holds_alternative<spec::LoraSpec::AllLinear>(spec.target_modules)) {
    return spec;
  }
  std::vector<std::string> names;
  for (const spec::TargetMatch& target : targets) names.push_back(target.name);
  spec.target_modules = std::move(names);
  return spec;
}

}  // namespace

std::string NameOfA(const std::string& module) {
  return absl::StrCat(kPeftPrefix, module, ".lora_A.weight");
}

std::string NameOfB(const std::string& module) {
  return absl::StrCat(kPeftPrefix, module, ".lora_B.weight");
}

std::string NameOfBaseLayer(const std::string& module) {
  return absl::StrCat(kPeftPrefix, module, ".base_layer.weight");
}

at::Tensor LoraLinear::Apply(const at::Tensor& base, const at::Tensor& x) {
  // fp32 for all dtypes of the base, as in PEFT (autocast_adapter_dtype): the
  // adapter's term is small compared with the base's, and is rounded only once,
  // with their sum.
  at::Tensor in = x.to(at::kFloat);
  if (dropout_ > 0 && *training_) in = at::dropout(in, dropout_, true);
  const at::Tensor delta =
      products::WideLinear(at::linear(in, a_), b_) * scaling_;
  if (base.scalar_type() == at::kFloat) return base + delta;
  return (base.to(at::kFloat) + delta).to(base.scalar_type());
}

absl::StatusOr<std::unique_ptr<Adapter>> Adapter::Attach(
    model::Network& model, const spec::LoraSpec& spec, at::Device device,
    PeftIdentity identity) {
  ASSIGN_OR_RETURN(auto targets, spec::MatchTargets(spec, model.config()));
  ASSIGN_OR_RETURN(auto saved, SavedWeights(model, spec));
  Initial initial;
  for (const spec::TargetMatch& t : targets) {
    initial.emplace_back(NameOfA(t.name), InitialA(t.r, t.in_features));
    initial.emplace_back(NameOfB(t.name), at::zeros({t.out_features, t.r}));
  }
  for (const auto& weight : saved) {
    initial.emplace_back(kPeftPrefix + weight.name, *weight.tensor);
  }
  spec::LoraSpec written = AsWritten(spec, identity, targets);
  std::unique_ptr<Adapter> adapter(new Adapter(
      model, std::move(written), std::move(identity), std::move(targets)));
  adapter->parameters_ = std::make_unique<optim::ParameterSet>(initial, device);
  for (const auto& weight : saved) {
    const optim::Parameter* own =
        adapter->parameters_->Find(kPeftPrefix + weight.name);
    base::Check(own != nullptr, "what is saved is a parameter");
    // The network computes with the trained copy from here on.
    *weight.tensor = own->value;
  }
  adapter->Hang();
  return adapter;
}

void Adapter::Hang() {
  std::map<std::string, model::Linear*> linears;
  for (model::Linear* l : model_.Linears()) linears[l->name] = l;
  for (const spec::TargetMatch& t : targets_) {
    linears.at(t.name)->adapter = std::make_unique<LoraLinear>(
        parameters_->Find(NameOfA(t.name))->value,
        parameters_->Find(NameOfB(t.name))->value, t.scaling,
        spec_.lora_dropout.value_or(0), &training_);
  }
}

std::map<std::string, at::Tensor> Adapter::Frozen() const {
  std::map<std::string, at::Tensor> weights;
  for (const model::Linear* l : model_.Linears()) {
    if (l->adapter != nullptr && l->weight.defined()) {
      weights[l->name] = l->weight;
    }
  }
  return weights;
}

absl::Status Adapter::SaveCheckpoint(
    const std::filesystem::path& folder) const {
  return SavePeftFolder(folder, spec_, identity_, *parameters_);
}

absl::Status Adapter::CheckCheckpoint(
    const std::filesystem::path& folder) const {
  return CheckPeftWeights(folder, *parameters_, Frozen());
}

absl::Status Adapter::LoadCheckpoint(const std::filesystem::path& folder) {
  return LoadPeftWeights(folder, *parameters_, Frozen());
}

// The linears' adapters refer to training_, which ends here, while the model
// lives on.
Adapter::~Adapter() {
  for (model::Linear* l : model_.Linears()) l->adapter.reset();
}

}  // namespace mpsd::lora
