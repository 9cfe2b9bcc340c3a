// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_GRADIENT_CHOICE_H_
#define MPSD_CORE_SPEC_GRADIENT_CHOICE_H_

#include <string>

#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

namespace mpsd::spec {

// How a job's gradients come about.
struct GradientChoice {
  // By the backward that core/fast writes out; else by autograd.
  bool explicit_step = false;
  // Why a job that could have had the explicit step gets autograd; empty where
  // there is no other way, or where the job asks for autograd.
  std::string reason;
  bool operator==(const GradientChoice&) const = default;
};

// The one place that decides it: what a job is estimated to need, what it is
// trained by and what run.json says of it follow from this. `spec` is as the
// job states it, or as a run has completed it.
GradientChoice ChooseGradients(const TrainSpec& spec,
                               const ModelConfig& config);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_GRADIENT_CHOICE_H_
