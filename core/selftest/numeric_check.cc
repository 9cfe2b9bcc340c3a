// SPDX-License-Identifier: Apache-2.0
#include "core/selftest/numeric_check.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace mpsd::selftest {

Check MakeCheck(Numeric numeric, at::ScalarType dtype) {
  const bool narrow = dtype == at::kBFloat16;
  Check check;
  check.kernel = numeric.kernel;
  check.shape =
      absl::StrCat(numeric.shape, narrow ? ", bfloat16" : ", float32");
  check.tolerance = narrow ? kBfloat16Tolerance : kFloatTolerance;
  check.error = [n = std::move(numeric), dtype](device::Device& device) {
    return ErrorOf(n.function, n.reference ? n.reference : n.function,
                   n.inputs(), device.torch_device(), dtype);
  };
  return check;
}

void AddBoth(const Numeric& numeric, std::vector<Check>& checks) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    checks.push_back(MakeCheck(numeric, dtype));
  }
}

}  // namespace mpsd::selftest
