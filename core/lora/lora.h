// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/network.h"
#include "core/optim/parameters.h"
#include "core/spec/targets.h"
#include "core/spec/train_spec.h"

namespace mpsd::lora {

// The names of tensors in adapter_model.safetensors: kPeftPrefix and the
// weight's own name, or these of a module's A and B.
inline constexpr char kPeftPrefix[] = "base_model.model.";
std::string NameOfA(const std::string& module);
std::string NameOfB(const std::string& module);

// One low-rank adapter (Hu et al. 2021) as PEFT's lora.Linear computes it:
//   y = base + scaling · B A dropout(x)
// in fp32, added to `base` in base's dtype. A [r, in], B [out, r]: contiguous
// views of the run's flat parameter buffer.
class LoraLinear : public model::LinearAdapter {
 public:
  LoraLinear(at::Tensor a, at::Tensor b, double scaling, double dropout,
             const bool* training)
      : a_(std::move(a)),
        b_(std::move(b)),
        scaling_(scaling),
        dropout_(dropout),
        training_(training) {}
  at::Tensor Apply(const at::Tensor& base, const at::Tensor& x) override;
  bool draws() const override { return dropout_ > 0 && *training_; }
  std::optional<model::LowRank> low_rank() const override {
    return model::LowRank{a_, b_, scaling_, draws() ? dropout_ : 0};
  }

  const at::Tensor& a() const { return a_; }
  const at::Tensor& b() const { return b_; }
  double scaling() const { return scaling_; }
  double dropout() const { return dropout_; }

 private:
  at::Tensor a_, b_;
  const double scaling_, dropout_;
  const bool* const training_;
};

// What the rows of an adapter's head mean. PEFT does not keep it; labels.json
// does, with the adapter's weights.
struct AdapterLabels {
  std::string problem_type;        // as in Transformers
  std::vector<std::string> names;  // by id
  bool operator==(const AdapterLabels&) const = default;
};

// The fields of adapter_config.json other than the LoRA settings, and the
// labels of a classifier.
struct PeftIdentity {
  std::string base_model;               // base_model_name_or_path
  std::string task_type = "CAUSAL_LM";  // PEFT's TaskType; "": null
  std::string revision = {};            // base_model's revision; "": null
  std::optional<AdapterLabels> labels = {};
};

// Everything that a run trains: adapters attached to a model's linears, and
// modules trained in full. The model must outlive this object; the destructor
// detaches the adapters.
class Adapter : public optim::Trainable {
 public:
  // Initialises as PEFT does: A uniform in ±1/√in (kaiming_uniform_ with a =
  // √5), B zero, drawn from the CPU generator in module order; modules_to_save
  // start as fp32 copies. InvalidArgument for a target or module that matches
  // nothing, with a list of the existing ones.
  static absl::StatusOr<std::unique_ptr<Adapter>> Attach(
      model::Network& model, const spec::LoraSpec& spec, at::Device device,
      PeftIdentity identity = {});
  ~Adapter() override;
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;

  // Names as in adapter_model.safetensors:
  // "base_model.model.<module>.lora_A.weight", "….lora_B.weight", and
  // "base_model.model.<module>.weight" for modules_to_save.
  optim::ParameterSet& parameters() override { return *parameters_; }

  // Switches LoRA's dropout.
  void set_training(bool training) override { training_ = training; }

  // Each of the next functions reads or writes a PEFT folder (peft_folder.h).
  absl::Status SaveCheckpoint(
      const std::filesystem::path& folder) const override;
  absl::Status CheckCheckpoint(
      const std::filesystem::path& folder) const override;
  absl::Status LoadCheckpoint(const std::filesystem::path& folder) override;

  const std::vector<spec::TargetMatch>& targets() const { return targets_; }

 private:
  Adapter(model::Network& model, spec::LoraSpec spec, PeftIdentity identity,
          std::vector<spec::TargetMatch> targets)
      : model_(model),
        spec_(std::move(spec)),
        identity_(std::move(identity)),
        targets_(std::move(targets)) {}
  void Hang();
  // The adapted linears' own weights, by module.
  std::map<std::string, at::Tensor> Frozen() const;

  model::Network& model_;
  const spec::LoraSpec spec_;
  const PeftIdentity identity_;
  const std::vector<spec::TargetMatch> targets_;
  std::unique_ptr<optim::ParameterSet> parameters_;
  bool training_ = false;
};

}  // namespace mpsd::lora
