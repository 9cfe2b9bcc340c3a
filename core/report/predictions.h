// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_REPORT_PREDICTIONS_H_
#define MPSD_CORE_REPORT_PREDICTIONS_H_

#include <cstdint>
#include <vector>

#include "core/spec/classification.h"

namespace mpsd::metrics {

// A classifier's outputs for a data set and the true labels. Rows are in
// data-set order.
struct Predictions {
  spec::ProblemType problem = spec::ProblemType::kSingleLabel;
  int64_t outputs = 0;         // per row
  std::vector<float> logits;   // [rows, outputs]
  std::vector<int64_t> truth;  // [rows], single-label problems only
  std::vector<float> targets;  // [rows, outputs], the other problems

  int64_t rows() const {
    return outputs == 0 ? 0 : static_cast<int64_t>(logits.size()) / outputs;
  }
  // The class with the highest logit of each row, the first if equal.
  std::vector<int64_t> Classes() const;
};

}  // namespace mpsd::metrics

#endif  // MPSD_CORE_REPORT_PREDICTIONS_H_
