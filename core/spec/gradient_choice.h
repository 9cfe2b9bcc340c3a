// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_GRADIENT_CHOICE_H_
#define MPSD_CORE_SPEC_GRADIENT_CHOICE_H_

#include <string>

#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

namespace mpsd::spec {

// How a job's gradients are computed.
struct GradientChoice {
  // By the hand-written backward in core/explicit_step; else by autograd.
  bool explicit_step = false;
  // Why a job gets autograd although its kind supports the explicit step; empty
  // if its kind does not, or if the job asks for autograd.
  std::string reason;
  bool operator==(const GradientChoice&) const = default;
};

// The only place that decides: the memory estimate, the training and run.json
// all follow this result. `spec` is as the job gives it, or as completed by a
// run.
GradientChoice ChooseGradients(const TrainSpec& spec,
                               const ModelConfig& config);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_GRADIENT_CHOICE_H_
