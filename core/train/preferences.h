// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/model/preference.h"
#include "core/train/language_modelling.h"
#include "core/train/stages.h"

namespace mpsd::train {

// The pairs of a batch of preferences.
model::Answers AnswersOf(const BatchInputs& inputs);

// CAUSAL_LM with `preference`: a decoder learns which of two answers is
// preferred. A sample is a pair, a batch all chosen answers, then all rejected
// ones. Its metrics are TRL's (model::kPreferenceMetrics), of steps too.
class Preferences : public LanguageModelling {
 public:
  using LanguageModelling::LanguageModelling;

  BatchLoss Loss(const BatchInputs& inputs) const override;
  metrics::Values Metrics(
      double loss, const metrics::Predictions& predictions) const override;
  std::vector<std::string> MetricNames() const override;
};

// Replaces the data sets of a job that learns preferences by ones with the
// reference's log-probabilities (data::Referenced): those of `loaded`'s network
// as it is, before any checkpoint is restored. They are computed once and kept
// next to the tokens; a cache that cannot be read or written costs only time
// and a warning. Batches may be others than those of training: a rope whose
// angles depend on a batch's longest row (longrope) has those of these batches.
// Cancelled if the observer asks for a stop.
absl::Status AddReference(Loaded& loaded);

}  // namespace mpsd::train
