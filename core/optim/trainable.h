// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_OPTIM_TRAINABLE_H_
#define MPSD_CORE_OPTIM_TRAINABLE_H_

#include <filesystem>

#include "absl/status/status.h"
#include "core/optim/parameters.h"

namespace mpsd::optim {

// What a run trains, and the form its users get it in: an adapter, or a model's
// own weights.
class Trainable {
 public:
  virtual ~Trainable() = default;

  virtual ParameterSet& parameters() = 0;

  // Dropout that is its own is active while training.
  virtual void set_training(bool training) = 0;

  // Writes the parameters, in fp32, and what it takes to read them.
  virtual absl::Status SaveCheckpoint(
      const std::filesystem::path& folder) const = 0;
  // Whether `folder` holds all of them, in their shapes: InvalidArgument or
  // NotFound where it does not. Reads no values.
  virtual absl::Status CheckCheckpoint(
      const std::filesystem::path& folder) const = 0;
  // Reads them back. The errors of CheckCheckpoint come before the first value
  // changes.
  virtual absl::Status LoadCheckpoint(const std::filesystem::path& folder) = 0;

  // Writes the finished result as its users' tools read it: as a checkpoint,
  // unless it says otherwise.
  virtual absl::Status SaveResult(const std::filesystem::path& folder) const {
    return SaveCheckpoint(folder);
  }
};

}  // namespace mpsd::optim

#endif  // MPSD_CORE_OPTIM_TRAINABLE_H_
