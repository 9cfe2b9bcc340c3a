// SPDX-License-Identifier: Apache-2.0
#include "core/study/parity.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/sha256.h"
#include "core/device/device.h"
#include "core/runbook/parity_options.h"
#include "core/study/parity_verdict.h"
#include "core/study/step_run.h"
#include "core/study/study_progress.h"
#include "core/study/tensor_delta.h"
#include "core/study/trained_values.h"

namespace mpsd::study {
namespace {

namespace fs = std::filesystem;
using runbook::ParityOptions;
using runbook::Summarize;
using runbook::TensorTrace;

// An evaluation on both sides costs as much as many steps; the metric of the
// first rows tells as much of a device as that of all.
constexpr int64_t kEvalSamples = 512;

// A folder that is gone afterwards, as is what a killed worker left there.
class Scratch {
 public:
  explicit Scratch(fs::path folder) : folder_(std::move(folder)) { Remove(); }
  ~Scratch() { Remove(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // The file for the tensors of one role.
  absl::StatusOr<fs::path> FileOf(TensorRole role) const {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) {
      return absl::InternalError(absl::StrCat(folder_.string(), ": cannot be ",
                                              "made: ", error.message()));
    }
    return folder_ / absl::StrCat(static_cast<int>(role), ".safetensors");
  }

 private:
  void Remove() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  const fs::path folder_;
};

Part PartFor(TensorRole role) {
  return role == TensorRole::kGradient ? Part::kGradient : Part::kValue;
}

// Told the parameters when they are those of the role.
using Take =
    std::function<absl::Status(TensorRole, const optim::ParameterSet&)>;

struct SideOptions {
  spec::DeviceChoice device = spec::DeviceChoice::kAuto;
  int64_t steps = 0;
  int sides_to_run = 1;                   // this one and what comes behind it
  const RecordedRun* recorded = nullptr;  // what the side is compared with
  Take take = {};
};

struct Side {
  ParityTrace trace;
  std::vector<int64_t> label_tokens;  // of each step
  std::optional<double> recorded_metric;
  bool has_dropout = false;
};

std::string DigestOfValues(const optim::ParameterSet& parameters) {
  base::Sha256 hash;
  VisitTensors(parameters, Part::kValue,
               [&](const std::string& name, std::span<const float> elements) {
                 hash.Update(name);
                 hash.Update({reinterpret_cast<const char*>(elements.data()),
                              elements.size_bytes()});
               });
  return hash.FinishHex().substr(0, runbook::kDigestDigits);
}

void Note(TensorRole role, const optim::ParameterSet& parameters,
          std::vector<TensorTrace>& tensors) {
  if (tensors.empty()) tensors.resize(parameters.parameters().size());
  size_t index = 0;
  VisitTensors(parameters, PartFor(role),
               [&](const std::string& name, std::span<const float> elements) {
                 TensorTrace& tensor = tensors[index++];
                 tensor.name = name;
                 tensor.elements = static_cast<int64_t>(elements.size());
                 (role == TensorRole::kGradient     ? tensor.gradient
                  : role == TensorRole::kFirstValue ? tensor.first
                                                    : tensor.last) =
                     Summarize(elements);
               });
}

// The runs' own words for the daemon and its watchers.
report::Progress ProgressOf(const StepRun& run, const StepRun::Step& step) {
  report::Progress progress;
  progress.loss = step.result.loss;
  progress.grad_norm = step.result.grad_norm;
  progress.learning_rate = step.learning_rate;
  progress.tokens = step.tokens;
  progress.label_tokens = step.label_tokens;
  progress.seconds = step.seconds;
  progress.device = run.loaded().device->name();
  return progress;
}

// Runs one side from the model to the last step.
absl::StatusOr<Side> RunSide(const Study& study, const SideOptions& options,
                             StudyProgress& progress) {
  StepRun::Options run_options;
  run_options.device = options.device;
  run_options.dropout = options.recorded != nullptr;
  if (options.recorded == nullptr) run_options.max_eval_samples = kEvalSamples;
  auto opened =
      StepRun::Open(study.spec, study.context, study.observer, run_options);
  if (!opened.ok()) return opened.status();
  StepRun& run = **opened;
  Side side;
  ParityTrace& trace = side.trace;
  trace.device = run.loaded().device->name();
  trace.description = run.loaded().device->description();
  trace.dtype = run.loaded().spec->training.bf16 ? "bf16" : "fp32";
  trace.mpsd_version = study.context.mpsd_version;
  trace.torch_version = study.context.torch_version;
  trace.gradients = run.gradient_path();
  trace.start = DigestOfValues(run.parameters());
  side.has_dropout = run.has_dropout();
  const auto take = [&](TensorRole role) -> absl::Status {
    Note(role, run.parameters(), trace.tensors);
    return options.take ? options.take(role, run.parameters())
                        : absl::OkStatus();
  };
  const int64_t steps = std::min(options.steps, run.total_steps());
  progress.set_total_steps(progress.done() + steps * options.sides_to_run);
  for (int64_t i = 1; i <= steps; ++i) {
    auto step = run.Next();
    if (!step.ok()) return step.status();
    trace.losses.push_back(step->result.loss);
    trace.grad_norms.push_back(step->result.grad_norm);
    trace.batches.push_back(step->samples);
    side.label_tokens.push_back(step->label_tokens);
    progress.Add(ProgressOf(run, *step));
    absl::Status taken;
    if (i == 1) taken = take(TensorRole::kGradient);
    if (i == 1 && taken.ok()) taken = take(TensorRole::kFirstValue);
    if (i == steps && taken.ok()) taken = take(TensorRole::kLastValue);
    if (!taken.ok()) return taken;
    if (options.recorded != nullptr && options.recorded->metric_step == i) {
      auto value = run.Evaluate(options.recorded->metric);
      if (!value.ok()) return value.status();
      side.recorded_metric = *value;
    }
  }
  if (options.recorded == nullptr && !run.metric().empty()) {
    auto value = run.Evaluate(run.metric());
    if (!value.ok()) return value.status();
    if (*value) {
      trace.metric = run.metric();
      trace.metric_value = **value;
    }
  }
  return side;
}

// On a machine without an accelerator the CPU would be compared with itself:
// only where somebody says so.
absl::Status CheckDevices(const ParityOptions& options,
                          spec::DeviceChoice device) {
  if (!options.reference_device) return absl::OkStatus();
  // The device in question is opened before the other one computes: one that is
  // not there costs no time of the other, and ATen looks for CUDA's hooks once,
  // which must be loaded by then.
  auto opened = device::Open(device);
  if (!opened.ok()) return opened.status();
  auto reference = device::Open(*options.reference_device);
  if (!reference.ok()) return reference.status();
  if (device != spec::DeviceChoice::kAuto ||
      !(*opened)->traits().is_reference ||
      !(*reference)->traits().is_reference) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      "parity: this machine has neither MPS nor CUDA, so that the CPU would be "
      "compared with itself. Where that is what you want, name it: `--device "
      "cpu`, or \"device\": \"cpu\" in job.json");
}

nlohmann::json ToJson(const ParityStep& step) {
  nlohmann::json json = {{"step", step.step},
                         {"loss", step.loss},
                         {"reference_loss", step.reference_loss},
                         {"loss_difference", step.difference}};
  if (step.grad_norm) json["grad_norm"] = *step.grad_norm;
  if (step.reference_grad_norm) {
    json["reference_grad_norm"] = *step.reference_grad_norm;
  }
  return json;
}

Found Tell(const Side& side, const std::string& reference,
           const std::string& metric, double metric_value,
           const ParityVerdict& verdict, const DeltaTable& deltas) {
  Found found;
  found.findings = verdict.findings;
  found.result = {{"device", side.trace.device},
                  {"dtype", verdict.dtype},
                  {"reference", reference},
                  {"trace", ToJson(side.trace)},
                  {"tensors_compared", deltas.compared()},
                  {"tensors_equal", deltas.equal()}};
  nlohmann::json& steps = found.result["steps"] = nlohmann::json::array();
  for (const ParityStep& step : verdict.steps) steps.push_back(ToJson(step));
  nlohmann::json& tensors = found.result["tensors"] = nlohmann::json::array();
  for (const TensorDelta& delta : deltas.Worst()) {
    tensors.push_back(ToJson(delta));
  }
  if (verdict.metric_compared) {
    found.result["metric"] = metric;
    found.result["metric_value"] = metric_value;
    found.result["reference_metric_value"] = verdict.reference_metric;
  }
  return found;
}

absl::StatusOr<Found> AgainstDevice(const Study& study,
                                    const ParityOptions& options,
                                    SideOptions side, StudyProgress& progress) {
  const Scratch scratch(study.context.out_dir / "parity-scratch");
  SideOptions reference_side = side;
  reference_side.sides_to_run = 2;
  reference_side.device = *options.reference_device;
  reference_side.take = [&](TensorRole role,
                            const optim::ParameterSet& parameters) {
    auto file = scratch.FileOf(role);
    return file.ok() ? KeepTensors(*file, parameters, PartFor(role))
                     : file.status();
  };
  auto reference = RunSide(study, reference_side, progress);
  if (!reference.ok()) return reference.status();
  DeltaTable deltas;
  side.take = [&](TensorRole role, const optim::ParameterSet& parameters) {
    auto file = scratch.FileOf(role);
    if (!file.ok()) return file.status();
    return VisitPairs(
        *file, parameters, PartFor(role),
        [&](const std::string& name, std::span<const float> elements,
            std::span<const float> kept) {
          deltas.Add(name, role, elements, kept);
        });
  };
  auto run = RunSide(study, side, progress);
  if (!run.ok()) return run.status();
  const ParityVerdict verdict =
      JudgeTraces(run->trace, reference->trace, deltas, study.thresholds);
  return Tell(*run,
              absl::StrCat(reference->trace.device, " (",
                           reference->trace.description, ")"),
              run->trace.metric, run->trace.metric_value, verdict, deltas);
}

// The tensors that both traces have.
DeltaTable DeltasOf(const ParityTrace& run, const ParityTrace& reference) {
  DeltaTable deltas;
  const bool same_end = run.losses.size() == reference.losses.size();
  for (const TensorTrace& tensor : run.tensors) {
    const auto other = std::find_if(
        reference.tensors.begin(), reference.tensors.end(),
        [&](const TensorTrace& t) { return t.name == tensor.name; });
    if (other == reference.tensors.end() ||
        other->elements != tensor.elements) {
      continue;
    }
    const auto add = [&](TensorRole role, const TensorSummary& ours,
                         const TensorSummary& theirs) {
      // A client leaves out what its request has no room for.
      if (theirs.sha256.empty()) return;
      deltas.Add(tensor.name, role, tensor.elements, ours, theirs);
    };
    add(TensorRole::kGradient, tensor.gradient, other->gradient);
    add(TensorRole::kFirstValue, tensor.first, other->first);
    if (same_end) add(TensorRole::kLastValue, tensor.last, other->last);
  }
  return deltas;
}

absl::StatusOr<Found> AgainstTrace(const Study& study,
                                   const ParityOptions& options,
                                   const SideOptions& side,
                                   StudyProgress& progress) {
  auto run = RunSide(study, side, progress);
  if (!run.ok()) return run.status();
  const ParityTrace& reference = *options.trace;
  const DeltaTable deltas = DeltasOf(run->trace, reference);
  const ParityVerdict verdict =
      JudgeTraces(run->trace, reference, deltas, study.thresholds);
  return Tell(*run,
              absl::StrCat(options.name, ": ", reference.device, " (",
                           reference.description, ")"),
              run->trace.metric, run->trace.metric_value, verdict, deltas);
}

absl::StatusOr<Found> AgainstRecord(const Study& study,
                                    const ParityOptions& options,
                                    SideOptions side, StudyProgress& progress) {
  side.recorded = &*options.recorded;
  auto run = RunSide(study, side, progress);
  if (!run.ok()) return run.status();
  const ParityVerdict verdict =
      JudgeRecorded(run->trace, run->label_tokens, *options.recorded,
                    run->recorded_metric, run->has_dropout, study.thresholds);
  return Tell(*run, options.name, options.recorded->metric,
              run->recorded_metric.value_or(0), verdict, {});
}

absl::StatusOr<Found> TraceAlone(const Study& study, const SideOptions& side,
                                 StudyProgress& progress) {
  auto run = RunSide(study, side, progress);
  if (!run.ok()) return run.status();
  ParityVerdict verdict;
  verdict.dtype = run->trace.dtype;
  verdict.findings.push_back(
      {"parity.trace", runbook::Verdict::kNotTold,
       absl::StrCat("nothing was compared: ", run->trace.losses.size(),
                    " steps are noted for another machine"),
       "there: `mpsctl parity JOB --against RESULT.json`, with what `mpsctl "
       "parity --json` printed here"});
  return Tell(*run, "", "", 0, verdict, {});
}

}  // namespace

absl::StatusOr<Found> CompareParity(const Study& study) {
  auto options = runbook::ParityOptionsFromJson(study.options);
  if (!options.ok()) return options.status();
  SideOptions side;
  side.device = options->device.value_or(study.spec.device);
  side.steps = options->steps;
  absl::Status s = CheckDevices(*options, side.device);
  if (!s.ok()) return s;
  // A job may have fewer steps than were asked for: each side knows.
  StudyProgress progress(study.observer, 0);
  if (options->reference_device) {
    return AgainstDevice(study, *options, side, progress);
  }
  if (options->trace) return AgainstTrace(study, *options, side, progress);
  if (options->recorded) return AgainstRecord(study, *options, side, progress);
  return TraceAlone(study, side, progress);
}

}  // namespace mpsd::study
