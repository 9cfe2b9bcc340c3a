// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_OPTIM_TRAINABLE_H_
#define MPSD_CORE_OPTIM_TRAINABLE_H_

#include <filesystem>

#include "absl/status/status.h"
#include "core/optim/parameters.h"

namespace mpsd::optim {

// The trained part of a run, and its files for users: an adapter, or a model's
// own weights.
class Trainable {
 public:
  virtual ~Trainable() = default;

  virtual ParameterSet& parameters() = 0;

  // Switches the trainable's own dropout, which is active while training.
  virtual void set_training(bool training) = 0;

  // Writes the parameters in fp32, and what else LoadCheckpoint needs.
  virtual absl::Status SaveCheckpoint(
      const std::filesystem::path& folder) const = 0;
  // Whether `folder` contains all parameters in their shapes: else
  // InvalidArgument or NotFound. Reads no values.
  virtual absl::Status CheckCheckpoint(
      const std::filesystem::path& folder) const = 0;
  // Reads the parameters back. CheckCheckpoint's errors come before the first
  // value changes.
  virtual absl::Status LoadCheckpoint(const std::filesystem::path& folder) = 0;

  // Writes the finished result for users' tools; by default like a checkpoint.
  virtual absl::Status SaveResult(const std::filesystem::path& folder) const {
    return SaveCheckpoint(folder);
  }
};

}  // namespace mpsd::optim

#endif  // MPSD_CORE_OPTIM_TRAINABLE_H_
