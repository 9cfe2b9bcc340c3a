// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CORE_MODEL_LAYOUTS_H_
#define MPSD_TESTS_CORE_MODEL_LAYOUTS_H_

#include <ATen/ATen.h>

#include "core/model/attention_options.h"
#include "core/model/token_layout.h"
#include "core/host/traits.h"
#include "gtest/gtest.h"
#include "tests/core/relative_error.h"

namespace mpsd::attention {

// By whose traits the CPU computes.
using backend::Choice;

using testing_support::RelativeError;

inline Options OptionsOf(Choice choice, at::ScalarType dtype = at::kFloat) {
  return {backend::TraitsOf(choice), dtype};
}

inline TokenLayout Rows(int64_t rows, int64_t length) {
  TokenLayout layout;
  layout.rows = rows;
  layout.length = length;
  return layout;
}

// Two segments and padding in each row.
inline TokenLayout PackedRows(int64_t rows, int64_t length) {
  TokenLayout layout = Rows(rows, length);
  layout.segment_ids = at::full({rows, length}, -1, at::kLong);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t first = length / 3 + row, second = length / 2;
    layout.segment_ids[row].narrow(0, 0, first).fill_(0);
    layout.segment_ids[row].narrow(0, first, second).fill_(1);
  }
  layout.segment_lengths = SegmentLengths(layout.segment_ids);
  return layout;
}

}  // namespace mpsd::attention

#endif  // MPSD_TESTS_CORE_MODEL_LAYOUTS_H_
