// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_GRADIENT_CHOICE_H_
#define MPSD_CORE_SPEC_GRADIENT_CHOICE_H_

#include <string>

#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

namespace mpsd::spec {

// How a job's gradients are computed.
struct GradientChoice {
  // By the backward written out in core/explicit_step; else by autograd.
  bool explicit_step = false;
  // Why a job gets autograd although its kind could use the explicit step;
  // empty where its kind cannot, or where the job asks for autograd.
  std::string reason;
  bool operator==(const GradientChoice&) const = default;
};

// The one place that decides: the memory estimate, the training and run.json
// all follow this result. `spec` is as the job states it, or as a run has
// completed it.
GradientChoice ChooseGradients(const TrainSpec& spec,
                               const ModelConfig& config);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_GRADIENT_CHOICE_H_
