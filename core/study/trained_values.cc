// SPDX-License-Identifier: Apache-2.0
#include "core/study/trained_values.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstddef>

#include "core/base/check.h"
#include "core/base/work_count.h"
#include "core/tensorfile/safetensors.h"

namespace mpsd::study {
namespace {

at::Tensor PartOf(const optim::Parameter& parameter, Part part) {
  if (part == Part::kValue) return parameter.value.detach();
  base::Check(parameter.value.grad().defined(), "a step made the gradients");
  return parameter.value.grad().detach();
}

std::span<const float> ElementsOf(const at::Tensor& host) {
  return {host.const_data_ptr<float>(), static_cast<size_t>(host.numel())};
}

}  // namespace

void VisitTensors(const optim::ParameterSet& parameters, Part part,
                  const VisitTensor& visit) {
  for (const optim::Parameter& parameter : parameters.parameters()) {
    const at::Tensor host = PartOf(parameter, part).to(at::kCPU).contiguous();
    visit(parameter.name, ElementsOf(host));
    base::CountWork();
  }
}

absl::Status KeepTensors(const std::filesystem::path& file,
                         const optim::ParameterSet& parameters, Part part) {
  tensorfile::NamedTensors tensors;
  for (const optim::Parameter& parameter : parameters.parameters()) {
    tensors.emplace_back(parameter.name, PartOf(parameter, part));
  }
  return tensorfile::WriteSafetensors(file, tensors);
}

absl::Status VisitPairs(const std::filesystem::path& file,
                        const optim::ParameterSet& parameters, Part part,
                        const VisitPair& visit) {
  const auto kept = tensorfile::SafetensorsFile::Open(file);
  if (!kept.ok()) return kept.status();
  absl::Status status;
  VisitTensors(parameters, part,
               [&](const std::string& name, std::span<const float> elements) {
                 if (!status.ok() || !(*kept)->entries().contains(name)) return;
                 const auto other = (*kept)->Load(name);
                 if (!other.ok()) {
                   status = other.status();
                   return;
                 }
                 const std::span<const float> there = ElementsOf(*other);
                 if (there.size() != elements.size()) return;
                 visit(name, elements, there);
               });
  return status;
}

}  // namespace mpsd::study
