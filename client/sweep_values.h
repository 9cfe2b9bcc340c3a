// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_SWEEP_VALUES_H_
#define MPSD_CLIENT_SWEEP_VALUES_H_

#include <string>

#include "absl/status/status.h"
#include "mpsd/v1/sweep.pb.h"

namespace mpsd::client {

// Reads a field and its values, as --grid and --random take them:
//
//   lora.r=8,16                         these values: JSON, or else texts
//   lora.target_modules=["q","v"],"all-linear"    commas within JSON are JSON's
//   lora.lora_dropout=uniform(0,0.1)    numbers between these
//   training.learning_rate=log(1e-5,1e-3)         the same in the logarithm
//   training.seed=int(1,100)            integers from the first to the last
//
// InvalidArgument quotes the text and says what was expected.
absl::Status ReadParameter(const std::string& text,
                           v1::SweepParameter& parameter);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_SWEEP_VALUES_H_
