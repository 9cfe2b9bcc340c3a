// SPDX-License-Identifier: Apache-2.0
#include "core/optim/parameters.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/base/check.h"

namespace mpsd::optim {
ParameterSet::ParameterSet(const Initial& initial, at::Device device,
                           int64_t max_group_elements) {
  // Groups take the parameters in another order, decayed ones first;
  // parameters_ keeps that of `initial`.
  parameters_.resize(initial.size());
  for (const bool decay : {true, false}) {
    std::vector<size_t> members;
    int64_t size = 0;
    for (size_t i = 0; i < initial.size(); ++i) {
      const auto& [name, value] = initial[i];
      if (Decays(name) != decay) continue;
      if (!members.empty() && size + value.numel() > max_group_elements) {
        AddGroup(initial, decay, members, device);
        members.clear();
        size = 0;
      }
      members.push_back(i);
      size += value.numel();
    }
    if (!members.empty()) AddGroup(initial, decay, members, device);
  }
  for (const Parameter& p : parameters_) {
    base::Check(p.value.defined(), "every parameter lies in a group");
  }
}

void ParameterSet::AddGroup(const Initial& initial, bool decay,
                            const std::vector<size_t>& members,
                            at::Device device) {
  const at::TensorOptions options =
      at::TensorOptions().dtype(at::kFloat).device(device);
  int64_t size = 0;
  for (size_t i : members) size += initial[i].second.numel();
  Group group{
      decay, at::zeros({size}, options), at::zeros({size}, options), {}, {}};
  int64_t offset = 0;
  for (size_t i : members) {
    const auto& [name, value] = initial[i];
    const int64_t n = value.numel();
    // detach() shares the storage and makes a leaf of the view.
    at::Tensor leaf =
        group.values.narrow(0, offset, n).view(value.sizes()).detach();
    leaf.copy_(value);
    leaf.requires_grad_(true);
    // The gradient exists from the start, so that autograd adds into the
    // group's buffer instead of making its own tensor.
    leaf.mutable_grad() =
        group.gradients.narrow(0, offset, n).view(value.sizes()).detach();
    parameters_[i] = {name, leaf};
    offset += n;
  }
  base::CheckEqual(offset, size, "numbers of a group's members");
  groups_.push_back(std::move(group));
}

const Parameter* ParameterSet::Find(std::string_view name) const {
  for (const Parameter& p : parameters_) {
    if (p.name == name) return &p;
  }
  return nullptr;
}

int64_t ParameterSet::element_count() const {
  int64_t count = 0;
  for (const Group& group : groups_) count += group.values.numel();
  return count;
}

at::Tensor ParameterSet::GradientOf(const at::Tensor& weight) const {
  for (const Group& group : groups_) {
    const bool copy =
        group.copies.defined() && weight.is_alias_of(group.copies);
    if (!copy && !weight.is_alias_of(group.values)) continue;
    const int64_t before = copy ? group.copied.storage_offset() : 0;
    return group.gradients
        .narrow(0, before + weight.storage_offset(), weight.numel())
        .view(weight.sizes());
  }
  return {};
}

void ParameterSet::ZeroGradients() {
  for (Group& group : groups_) group.gradients.zero_();
}

void ParameterSet::MakeCopies(at::ScalarType dtype,
                              const std::vector<size_t>& which) {
  for (Group& group : groups_) {
    int64_t begin = group.values.numel(), end = 0;
    for (const size_t i : which) {
      const at::Tensor& value = parameters_[i].value;
      if (!value.is_alias_of(group.values)) continue;
      begin = std::min(begin, value.storage_offset());
      end = std::max(end, value.storage_offset() + value.numel());
    }
    if (begin >= end) continue;
    group.copied = group.values.narrow(0, begin, end - begin);
    group.copies = at::empty_like(group.copied, dtype);
  }
  RefreshCopies();
}

void ParameterSet::RefreshCopies() {
  const at::NoGradGuard no_grad;
  for (Group& group : groups_) {
    if (group.copies.defined()) group.copies.copy_(group.copied);
  }
}

at::Tensor ParameterSet::CopyOf(size_t i) const {
  const at::Tensor& value = parameters_[i].value;
  const auto group =
      std::find_if(groups_.begin(), groups_.end(),
                   [&](const Group& g) { return g.values.is_alias_of(value); });
  // detach() shares the storage and makes a leaf of the view.
  at::Tensor leaf =
      group->copies
          .narrow(0, value.storage_offset() - group->copied.storage_offset(),
                  value.numel())
          .view(value.sizes())
          .detach();
  leaf.requires_grad_(true);
  leaf.mutable_grad() = GradientOf(leaf);
  return leaf;
}

bool ParameterSet::Decays(std::string_view name) {
  std::string lower;
  for (char c : name) lower.push_back(static_cast<char>(std::tolower(c)));
  auto has = [&](const char* text) {
    return lower.find(text) != std::string::npos;
  };
  return !has("bias") && !has("layernorm") && !has("rmsnorm") &&
         !has(".norm.") && !has("_norm.") && lower.rfind("norm.", 0) != 0;
}

}  // namespace mpsd::optim
