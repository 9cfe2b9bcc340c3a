// SPDX-License-Identifier: Apache-2.0
#include "core/study/parity_verdict.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mpsd::study {
namespace {

using runbook::Finding;
using runbook::Thresholds;
using runbook::Verdict;

constexpr char kAdvice[] =
    "the two sides do not compute the same: `mpsd-worker --selftest` says "
    "whether a device's kernels differ, and `mpsctl doctor` which versions "
    "run. What must match is to run on one platform alone";

std::string Number(double value) { return absl::StrFormat("%.3g", value); }

// A finding that fails above its threshold, "parity.<what>_<dtype>".
Finding Compared(const std::string& what, const std::string& dtype,
                 double value, std::string found,
                 const Thresholds& thresholds) {
  const double threshold =
      thresholds.Get(absl::StrCat("parity.", what, "_", dtype));
  Finding finding{absl::StrCat("parity.", what),
                  value <= threshold ? Verdict::kPass : Verdict::kFail,
                  std::move(found)};
  if (finding.verdict == Verdict::kFail) finding.advice = kAdvice;
  finding.value = value;
  finding.threshold = threshold;
  finding.unit = "ratio";
  return finding;
}

Finding NotTold(const std::string& what, const std::string& why) {
  return {absl::StrCat("parity.", what), Verdict::kNotTold, why};
}

Finding LossFinding(const std::vector<ParityStep>& steps,
                    const std::string& dtype, const std::string& note,
                    const Thresholds& thresholds) {
  if (steps.empty()) return NotTold("loss", "the two sides share no step");
  const auto worst = std::max_element(
      steps.begin(), steps.end(), [](const ParityStep& a, const ParityStep& b) {
        return a.difference < b.difference;
      });
  return Compared(
      "loss", dtype, worst->difference,
      absl::StrFormat("losses of %d steps differ by %s at most, relative to "
                      "the larger: %.6g and %.6g at step %d%s",
                      steps.size(), Number(worst->difference), worst->loss,
                      worst->reference_loss, worst->step, note),
      thresholds);
}

Finding DtypeFinding(const ParityTrace& run, const ParityTrace& reference) {
  if (run.dtype == reference.dtype) {
    return {"parity.dtype", Verdict::kPass,
            absl::StrCat("both computed in ", run.dtype)};
  }
  return {"parity.dtype", Verdict::kWarn,
          absl::StrCat("the job computed in ", run.dtype, ", the reference in ",
                       reference.dtype, ": the tolerances of bf16 count"),
          "set training.bf16 as the other run has it, to compare devices and "
          "not dtypes"};
}

Finding BatchFinding(const ParityTrace& run, const ParityTrace& reference) {
  const size_t steps = std::min(run.batches.size(), reference.batches.size());
  if (steps == 0) return NotTold("data", "the reference does not say");
  for (size_t i = 0; i < steps; ++i) {
    if (run.batches[i] == reference.batches[i]) continue;
    return {"parity.data", Verdict::kFail,
            absl::StrCat("step ", i + 1, " saw other samples on the two sides"),
            "compare runs of the same job.json, data files, tokenizer and "
            "training.seed"};
  }
  return {
      "parity.data", Verdict::kPass,
      absl::StrCat("both saw the same samples in each of ", steps, " steps")};
}

Finding StartFinding(const ParityTrace& run, const ParityTrace& reference) {
  if (run.start == reference.start) {
    return {"parity.start", Verdict::kPass,
            "the trained values were equal bit for bit before the first step"};
  }
  return {"parity.start", Verdict::kFail,
          "the trained values differed before the first step",
          "compare runs of the same model folder, adapter, lora settings and "
          "training.seed"};
}

Finding GradientFinding(const std::string& dtype, const DeltaTable& deltas,
                        const Thresholds& thresholds) {
  if (!deltas.Has(TensorRole::kGradient)) {
    return NotTold("gradient", "no tensor is trained on both sides");
  }
  for (const TensorDelta& delta :
       deltas.Worst(static_cast<size_t>(deltas.compared()))) {
    if (delta.role != TensorRole::kGradient) continue;
    return Compared("gradient", dtype, delta.relative_l2,
                    absl::StrCat("gradients of the first step differ by ",
                                 Number(delta.relative_l2),
                                 " at most (L2, relative), in ", delta.name),
                    thresholds);
  }
  return NotTold("gradient", "");
}

Finding ValueFinding(const std::string& dtype, const DeltaTable& deltas,
                     const Thresholds& thresholds) {
  if (!deltas.Has(TensorRole::kLastValue)) {
    return NotTold("values", "no tensor is trained on both sides");
  }
  const double whole = deltas.Whole(TensorRole::kLastValue);
  return Compared(
      "values", dtype, whole,
      absl::StrCat("all trained values after the last step differ by ",
                   Number(whole), " (L2, relative)"),
      thresholds);
}

Finding MetricFinding(const std::string& dtype, const std::string& metric,
                      double value, double reference,
                      const Thresholds& thresholds) {
  const double difference = RelativeDifference(value, reference);
  return Compared("metric", dtype, difference,
                  absl::StrFormat("the validation metric %s is %.6g and %.6g, "
                                  "a relative difference of %s",
                                  metric, value, reference, Number(difference)),
                  thresholds);
}

// The mean of the losses of the steps behind `after`, up to `step`.
double MeanLoss(const ParityTrace& run, int64_t after, int64_t step) {
  double sum = 0;
  for (int64_t i = after; i < step; ++i) {
    sum += run.losses[static_cast<size_t>(i)];
  }
  return sum / static_cast<double>(step - after);
}

Finding RecordedDataFinding(const std::vector<int64_t>& label_tokens,
                            const RecordedRun& recorded) {
  if (recorded.label_tokens.empty()) {
    return NotTold("data",
                   "the record does not say what its batches held: the same "
                   "order of rows (train_sampling_strategy sequential) and the "
                   "same masks are taken for granted");
  }
  for (size_t i = 0; i < recorded.steps.size(); ++i) {
    const int64_t step = recorded.steps[i];
    if (step > static_cast<int64_t>(label_tokens.size())) break;
    const int64_t own = label_tokens[static_cast<size_t>(step - 1)];
    if (own == recorded.label_tokens[i]) continue;
    return {"parity.data", Verdict::kFail,
            absl::StrCat("step ", step, " has ", own, " label tokens, the ",
                         "record says ", recorded.label_tokens[i],
                         ": other samples"),
            "compare runs of the same job.json, data files, tokenizer and "
            "training.seed"};
  }
  return {"parity.data", Verdict::kPass,
          "each step has as many label tokens as the record says"};
}

}  // namespace

double RelativeDifference(double a, double b) {
  const double larger = std::max(std::abs(a), std::abs(b));
  return larger == 0 ? 0 : std::abs(a - b) / larger;
}

double RoundingOf(const std::vector<double>& losses) {
  for (int decimals = 1; decimals <= 4; ++decimals) {
    const double scale = std::pow(10, decimals);
    const bool all =
        std::all_of(losses.begin(), losses.end(), [scale](double loss) {
          const double scaled = loss * scale;
          return std::abs(scaled - std::round(scaled)) <=
                 1e-9 * std::max(1.0, std::abs(scaled));
        });
    if (all) return 0.5 / scale;
  }
  return 0;
}

ParityVerdict JudgeTraces(const ParityTrace& run, const ParityTrace& reference,
                          const DeltaTable& deltas,
                          const Thresholds& thresholds) {
  ParityVerdict verdict;
  verdict.dtype = reference.dtype == "bf16" ? reference.dtype : run.dtype;
  const size_t steps = std::min(run.losses.size(), reference.losses.size());
  for (size_t i = 0; i < steps; ++i) {
    ParityStep& step = verdict.steps.emplace_back();
    step.step = static_cast<int64_t>(i) + 1;
    step.loss = run.losses[i];
    step.reference_loss = reference.losses[i];
    step.difference = RelativeDifference(step.loss, step.reference_loss);
    if (i < run.grad_norms.size()) step.grad_norm = run.grad_norms[i];
    if (i < reference.grad_norms.size()) {
      step.reference_grad_norm = reference.grad_norms[i];
    }
  }
  // What was equal before the first step and in the data decides what any
  // difference behind means, so that these come first.
  verdict.findings = {BatchFinding(run, reference),
                      StartFinding(run, reference),
                      DtypeFinding(run, reference),
                      LossFinding(verdict.steps, verdict.dtype, "", thresholds),
                      GradientFinding(verdict.dtype, deltas, thresholds)};
  const bool same_length = run.losses.size() == reference.losses.size();
  if (same_length) {
    verdict.findings.push_back(ValueFinding(verdict.dtype, deltas, thresholds));
  } else {
    verdict.findings.push_back(NotTold(
        "values",
        absl::StrCat("the reference ends after ", reference.losses.size(),
                     " steps, the job after ", run.losses.size())));
  }
  if (run.metric.empty() || run.metric != reference.metric || !same_length) {
    verdict.findings.push_back(NotTold(
        "metric", run.metric.empty()
                      ? "the job has no evaluation data (dataset.eval)"
                      : "the reference has no such metric after this step"));
    return verdict;
  }
  verdict.metric_compared = true;
  verdict.reference_metric = reference.metric_value;
  verdict.findings.push_back(MetricFinding(verdict.dtype, run.metric,
                                           run.metric_value,
                                           reference.metric_value, thresholds));
  return verdict;
}

ParityVerdict JudgeRecorded(const ParityTrace& run,
                            const std::vector<int64_t>& label_tokens,
                            const RecordedRun& recorded,
                            const std::optional<double>& metric,
                            bool has_dropout, const Thresholds& thresholds) {
  ParityVerdict verdict;
  verdict.dtype = run.dtype;
  const double rounding = RoundingOf(recorded.losses);
  int64_t after = 0;
  for (size_t i = 0; i < recorded.steps.size(); ++i) {
    const int64_t at = recorded.steps[i];
    if (at > static_cast<int64_t>(run.losses.size())) break;
    ParityStep& step = verdict.steps.emplace_back();
    step.step = at;
    step.loss = MeanLoss(run, after, at);
    step.reference_loss = recorded.losses[i];
    const double apart = std::abs(step.loss - step.reference_loss);
    // What the record rounded away tells nothing of the device.
    step.difference = apart <= rounding
                          ? 0
                          : RelativeDifference(step.loss, step.reference_loss) *
                                (apart - rounding) / apart;
    step.grad_norm = run.grad_norms[static_cast<size_t>(at - 1)];
    if (!recorded.grad_norms.empty()) {
      step.reference_grad_norm = recorded.grad_norms[i];
    }
    after = at;
  }
  const std::string note = rounding > 0
                               ? absl::StrCat("; beyond the ", Number(rounding),
                                              " that the record rounds away")
                               : "";
  verdict.findings = {
      RecordedDataFinding(label_tokens, recorded),
      LossFinding(verdict.steps, verdict.dtype, note, thresholds)};
  if (has_dropout) {
    verdict.findings.push_back(
        {"parity.dropout", Verdict::kWarn,
         "the job has dropout: only the same mpsd on the same kind of device "
         "draws the same masks",
         "record and compare without dropout (lora.lora_dropout 0, the model's "
         "probabilities in config.json 0)"});
  }
  if (!metric) {
    verdict.findings.push_back(
        NotTold("metric", recorded.metric_step == 0
                              ? "the record has no evaluation of these steps"
                              : "the job has no such metric"));
    return verdict;
  }
  verdict.metric_compared = true;
  verdict.reference_metric = recorded.metric_value;
  verdict.findings.push_back(MetricFinding(verdict.dtype, recorded.metric,
                                           *metric, recorded.metric_value,
                                           thresholds));
  return verdict;
}

}  // namespace mpsd::study
