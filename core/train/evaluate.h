// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_EVALUATE_H_
#define MPSD_CORE_TRAIN_EVALUATE_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "core/data/loader.h"
#include "core/device/device.h"
#include "core/metrics/metrics.h"
#include "core/metrics/predictions.h"
#include "core/model/network.h"
#include "core/optim/trainable.h"
#include "core/train/task.h"

namespace mpsd::train {

// What a run trains, seen from the steps: all must outlive who holds it.
struct Trained {
  const Task& task;
  model::Network& network;
  optim::Trainable& trainable;
  device::Device& device;
};

struct EvalResult {
  double loss = 0;           // mean, weighted as in training
  int64_t label_tokens = 0;  // of language models
  metrics::Values metrics;
  metrics::Predictions predictions;  // no rows for language models
};

// The loss and metrics of a data set, without dropout or gradients. `go_on` is
// asked before each batch with the share done; false ends early with Cancelled.
// DataLoss for a loss that is not finite.
absl::StatusOr<EvalResult> Evaluate(const Trained& trained,
                                    const data::EvalLoader& batches,
                                    const std::function<bool(double)>& go_on);

// A classifier's logits for rows whose labels need not be known.
absl::StatusOr<metrics::Predictions> Predict(
    const Trained& trained, const data::EvalLoader& batches,
    const std::function<bool(double)>& go_on);

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_EVALUATE_H_
