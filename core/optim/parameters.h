// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace mpsd::optim {

// A trainable parameter: a leaf whose value and gradient are contiguous views
// of the flat buffers of its group.
struct Parameter {
  std::string name;  // as saved by PEFT
  at::Tensor value;  // fp32, requires_grad
};

// The trainable parameters of a run in flat fp32 buffers, one per weight-decay
// group: zeroing, the norm and the optimizer each take one call per group,
// independent of the number of parameters. A group that would exceed MPS's
// tensor limit (4 GiB) is split into several. For a network that computes in
// another dtype, copies of the values are cast with one call per group, too.
class ParameterSet {
 public:
  static constexpr int64_t kMaxGroupElements = int64_t{1} << 28;  // 1 GiB

  // All `initial` values are fp32 on one device, and are copied. A parameter
  // above `max_group_elements` gets its own group.
  ParameterSet(const std::vector<std::pair<std::string, at::Tensor>>& initial,
               at::Device device,
               int64_t max_group_elements = kMaxGroupElements);
  ParameterSet(const ParameterSet&) = delete;
  ParameterSet& operator=(const ParameterSet&) = delete;

  // The parameters in the order given to the constructor.
  const std::vector<Parameter>& parameters() const { return parameters_; }
  // The parameter of that name, or null.
  const Parameter* Find(std::string_view name) const;

  struct Group {
    bool decay = false;
    at::Tensor values;     // fp32 [n]
    at::Tensor gradients;  // fp32 [n]
    // The part of `values` that has copies, and these; undefined: none.
    at::Tensor copied, copies;  // [m]
  };
  // The groups that are not empty, decayed first.
  const std::vector<Group>& groups() const { return groups_; }
  int64_t element_count() const;

  // The gradient of a parameter, given its value or its copy, or adjacent ones
  // of one group as a single view: fp32 in the shape of `weight`, a view of the
  // group's buffer. Undefined if `weight` is none of these.
  at::Tensor GradientOf(const at::Tensor& weight) const;
  // Sets the gradients to zero in place.
  void ZeroGradients();

  // Makes copies in `dtype` of the parameters `which` (indices).
  void MakeCopies(at::ScalarType dtype, const std::vector<size_t>& which);
  // Casts the values to their copies: after each change of the values.
  void RefreshCopies();
  // The copy of parameter `i`, one of MakeCopies', as a leaf for a network to
  // compute with. Its .grad is the parameter's, in fp32.
  at::Tensor CopyOf(size_t i) const;

  // Whether HF's Trainer decays the parameter (transformers, trainer.py,
  // get_decay_parameter_names): neither biases nor weights of norms.
  static bool Decays(std::string_view name);

 private:
  using Initial = std::vector<std::pair<std::string, at::Tensor>>;
  // Makes the group of the parameters `members`, indices into `initial`.
  void AddGroup(const Initial& initial, bool decay,
                const std::vector<size_t>& members, at::Device device);

  std::vector<Parameter> parameters_;
  std::vector<Group> groups_;
};

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
