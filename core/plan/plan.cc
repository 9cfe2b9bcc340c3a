// SPDX-License-Identifier: Apache-2.0
#include "core/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/limits.h"
#include "core/base/units.h"
#include "core/data/batch_shapes.h"
#include "core/plan/epoch.h"
#include "core/plan/needs.h"
#include "core/plan/step_time.h"
#include "core/report/runbook.h"
#include "core/spec/job_layers.h"

namespace mpsd::plan {
namespace {

using nlohmann::json;
using runbook::Finding;
using runbook::Verdict;

double Share(int64_t part, int64_t whole) {
  return whole == 0 ? 0
                    : static_cast<double>(part) / static_cast<double>(whole);
}

std::string Percent(double share) {
  return absl::StrFormat("%.1f %%", 100 * share);
}

class Planner {
 public:
  explicit Planner(const PlannedJob& job)
      : job_(job),
        traits_(backend::TraitsOf(job.device)),
        spec_(WithMicroBatch(job.spec, job.model, traits_, job.rows,
                             job.facts.memory_limit_bytes)),
        shapes_(spec_, job.model, traits_,
                std::string(backend::NameOf(job.device))),
        memory_(MemoryOf(spec_, job.model, traits_, job.rows)),
        own_(shapes_.TrainOptions(spec_.training.per_device_train_batch_size)),
        epoch_(CountEpoch(*job.rows.train, own_)),
        rates_(RatesHere()),
        times_({spec_, job.model, traits_, epoch_, memory_.longest_row,
                LabelShare()},
               rates_ ? &*rates_ : nullptr, job.facts) {}

  json Make() {
    AddSteps();
    AddData();
    AddModel();
    AddMemory();
    AddTime();
    AddDisk();
    AddWarnings();
    std::vector<Finding>& all = findings_;
    runbook::SortBySeverity(all);
    if (all.size() > limits::kFindings) all.resize(limits::kFindings);
    plan_["findings"] = json::array();
    for (const Finding& finding : all) {
      plan_["findings"].push_back(runbook::ToJson(finding));
    }
    plan_["verdict"] = runbook::NameOf(runbook::Worst(all));
    return std::move(plan_);
  }

 private:
  bool images() const { return job_.model.family == spec::Family::kVision; }
  int64_t image_tokens() const { return job_.model.vision.patches() + 1; }
  double threshold(const char* name) const {
    return job_.facts.thresholds.Get(name);
  }

  std::optional<Rates> RatesHere() const {
    if (job_.facts.rates) return job_.facts.rates;
    const Chip* chip = FindChip(job_.facts.chip, job_.facts.gpu_cores);
    // A chip's rates are those of its GPU.
    if (chip == nullptr || traits_.memory == backend::MemoryPlace::kHost) {
      return std::nullopt;
    }
    return RatesOf(*chip);
  }

  double LabelShare() const {
    const data::DatasetStats& stats = job_.rows.train->stats();
    return Share(stats.label_tokens, stats.tokens);
  }

  void AddSteps() {
    const spec::TrainingSpec& t = spec_.training;
    total_steps_ = shapes_.TotalSteps(epoch_.steps);
    epochs_ = Share(total_steps_, epoch_.steps);
    int64_t every = 0;  // no evaluation
    if (job_.rows.eval != nullptr) {
      every = t.eval_steps > 0 ? t.eval_steps : epoch_.steps;
      // Including those before the first and after the last step.
      evaluations_ = 1 + total_steps_ / every + (total_steps_ % every != 0);
    }
    checkpoints_ = CountCheckpoints(t, total_steps_, every);
    const double scale = images() ? static_cast<double>(image_tokens()) : 1;
    plan_["steps"] = {
        {"batch_rows", shapes_.step_rows()},
        {"micro_batch_rows", t.per_device_train_batch_size},
        {"gradient_accumulation_steps", t.gradient_accumulation_steps},
        {"steps_per_epoch", epoch_.steps},
        {"epochs", epochs_},
        {"total_steps", total_steps_},
        {"warmup_steps", job_.warmup_steps(total_steps_)},
        {"evaluations", evaluations_},
        {"checkpoints", checkpoints_.saved + checkpoints_.bests},
        {"tokens_per_step", scale * Share(epoch_.tokens, epoch_.steps)},
        {"padded_tokens_per_step",
         scale * Share(epoch_.padded_tokens, epoch_.steps)}};
  }

  json Rows(const CountedRows& rows) const {
    const data::DatasetStats& stats = rows.stats();
    json out = {{"rows", rows.size()},
                {"tokens", stats.tokens},
                {"label_tokens", stats.label_tokens},
                {"cut_rows", stats.truncated_rows},
                {"cut_share", rows.cut_share()},
                {"dropped_rows", stats.dropped_rows},
                {"dropped_share", rows.dropped_share()}};
    if (images()) {
      const int64_t each = image_tokens();
      out["tokens"] = rows.size() * each;
      for (const char* name :
           {"shortest", "median", "p95", "longest", "mean"}) {
        out[name] = each;
      }
      out["lengths"] = {{{"from", each}, {"to", each}, {"rows", rows.size()}}};
      return out;
    }
    const LengthSummary summary = Summarize(rows);
    out["shortest"] = summary.shortest;
    out["median"] = summary.median;
    out["p95"] = summary.p95;
    out["longest"] = summary.longest;
    out["mean"] = summary.mean;
    out["lengths"] = json::array();
    for (const LengthBin& bin : summary.bins) {
      out["lengths"].push_back(
          {{"from", bin.from}, {"to", bin.to}, {"rows", bin.rows}});
    }
    return out;
  }

  void AddData() {
    json& data = plan_["data"];
    data["train"] = Rows(*job_.rows.train);
    if (job_.rows.eval != nullptr) data["eval"] = Rows(*job_.rows.eval);
    if (job_.rows.predict != nullptr) {
      data["predict"] = Rows(*job_.rows.predict);
    }
    FindInRows(data["train"]);
    data["samplings"] = json::array();
    double least = 1;
    std::string best, patch;
    for (const Sampling& sampling : Samplings(spec_, own_)) {
      const Epoch epoch = sampling.chosen
                              ? epoch_
                              : CountEpoch(*job_.rows.train, sampling.options);
      const int64_t each = images() ? image_tokens() : 1;
      json out = {{"name", sampling.name},
                  {"chosen", sampling.chosen},
                  {"padding_share", epoch.padding_share()},
                  {"steps_per_epoch", epoch.steps},
                  {"padded_tokens_per_epoch", epoch.padded_tokens * each},
                  {"patch", sampling.patch}};
      spec::TrainSpec other = spec_;
      other.training.packing = sampling.options.packing;
      if (const auto seconds = times_.Seconds(other, epoch)) {
        out["seconds_per_epoch"] = *seconds;
      }
      data["samplings"].push_back(std::move(out));
      // Packing changes the steps: it is not offered as the same training.
      if (!sampling.options.packing && epoch.padding_share() < least) {
        least = epoch.padding_share();
        best = sampling.name;
        patch = sampling.patch;
      }
    }
    const double own = epoch_.padding_share(), most = threshold("plan.padding");
    Finding padding{.name = "plan.padding",
                    .verdict = own > most ? Verdict::kWarn : Verdict::kPass,
                    .found = absl::StrCat(
                        Percent(own), " of the computed tokens are padding"),
                    .value = own,
                    .threshold = most,
                    .unit = "ratio"};
    if (own > most && least < own) {
      padding.advice =
          absl::StrCat(best, " would have ", Percent(least), ": ", patch);
    }
    findings_.push_back(std::move(padding));
  }

  void FindInRows(const json& rows) {
    const auto compare = [&](const char* name, const char* share,
                             const std::string& found, const char* advice) {
      const double value = rows[share].get<double>();
      const double most = threshold(name);
      const bool bad = value > most;
      findings_.push_back({.name = name,
                           .verdict = bad ? Verdict::kWarn : Verdict::kPass,
                           .found = absl::StrCat(Percent(value), found),
                           .advice = bad ? advice : "",
                           .value = value,
                           .threshold = most,
                           .unit = "ratio"});
    };
    if (images()) return;
    // Texts of classes are cut to the model's positions, too.
    const int64_t length =
        spec_.task == spec::Task::kSeqCls
            ? std::min(spec_.training.max_length, job_.model.max_row_tokens())
            : spec_.training.max_length;
    compare(
        "plan.cut_rows", "cut_share",
        absl::StrCat(" of the training rows are cut to ", length, " tokens"),
        "raise training.max_length, or split long rows");
    compare("plan.dropped_rows", "dropped_share",
            " of the training rows have no label and are dropped",
            "look at the columns and roles of the rows, and at max_length");
  }

  std::string Dtype() const {
    const spec::QuantizationSpec& q = job_.model.quantization
                                          ? *job_.model.quantization
                                          : spec_.quantization_config;
    if (q.load_in_4bit) return "4 bits (nf4)";
    if (q.load_in_8bit) return "8 bits (int8)";
    return spec_.training.bf16 ? "bfloat16" : "float32";
  }

  std::string WhyGradients(const spec::GradientChoice& choice) const {
    if (choice.explicit_step) {
      return "a language model";
    }
    if (!choice.reason.empty()) return choice.reason;
    return spec_.task == spec::Task::kCausalLm ? "the job asks for it"
                                               : "a classifier";
  }

  void AddModel() {
    const spec::GradientChoice choice =
        spec::ChooseGradients(spec_, job_.model);
    plan_["model"] = {
        {"model_type", job_.model.model_type},
        {"folder", job_.model_folder},
        {"parameters", spec::ParameterCount(job_.model)},
        {"trainable_parameters",
         spec::TrainableParameterCount(spec_, job_.model)},
        {"dtype", Dtype()},
        {"gradients", choice.explicit_step ? "explicit step" : "autograd"},
        {"gradients_reason", WhyGradients(choice)},
        {"device", std::string(backend::NameOf(job_.device))},
        {"chip", job_.facts.chip}};
  }

  void AddMemory() {
    const spec::MemoryEstimate& e = memory_.parts;
    const bool probed = job_.facts.probe && job_.facts.probe->peak_bytes > 0;
    const int64_t peak = probed ? job_.facts.probe->peak_bytes : e.total_bytes;
    json& memory = plan_["memory"];
    memory = {{"source", probed ? "PLAN_SOURCE_PROBE" : "PLAN_SOURCE_ESTIMATE"},
              {"peak_bytes", peak},
              {"estimated_bytes", e.total_bytes},
              {"estimated_bytes_at_max_length", memory_.bytes_at_max_length},
              {"longest_row", images() ? image_tokens() : memory_.longest_row},
              {"base_weights_bytes", e.base_weights_bytes},
              {"trainable_bytes", e.trainable_bytes},
              {"activations_bytes", e.activations_bytes},
              {"logits_bytes", e.logits_bytes},
              {"backward_bytes", e.backward_bytes},
              {"evaluation_bytes", e.evaluation_bytes},
              {"inputs_bytes", e.inputs_bytes},
              {"heap_bytes", e.heap_bytes}};
    const int64_t limit = job_.facts.memory_limit_bytes;
    if (limit > 0) memory["limit_bytes"] = limit;
    JudgeMemory(peak, limit);
    const absl::Status sizes = shapes_.CheckDeviceLimits(
        *job_.rows.train, {job_.rows.eval, job_.rows.predict});
    if (!sizes.ok()) {
      unfit_ = true;
      findings_.push_back({.name = "plan.device_limit",
                           .verdict = Verdict::kFail,
                           .found = std::string(sizes.message())});
    }
    if (unfit_) AddAlternatives(limit);
  }

  void JudgeMemory(int64_t peak, int64_t limit) {
    Finding finding{.name = "plan.memory", .found = "", .unit = "ratio"};
    finding.threshold = threshold("plan.memory");
    const bool ran_out = job_.facts.probe && job_.facts.probe->out_of_memory;
    if (limit == 0 && !ran_out) {
      finding.found = absl::StrCat("the job needs ", base::BytesText(peak),
                                   "; the device's memory limit is unknown");
      findings_.push_back(std::move(finding));
      return;
    }
    const double share = Share(peak, limit);
    finding.value = share;
    finding.found = absl::StrCat("the job needs ", base::BytesText(peak),
                                 " of ", base::BytesText(limit));
    finding.verdict = share > 1                    ? Verdict::kFail
                      : share > *finding.threshold ? Verdict::kWarn
                                                   : Verdict::kPass;
    if (finding.verdict == Verdict::kWarn) {
      finding.advice =
          "it barely fits: other programs share the memory; a smaller "
          "micro-batch or gradient_checkpointing leaves them room";
    }
    if (ran_out) {
      finding.verdict = Verdict::kFail;
      absl::StrAppend(&finding.found, "; its probe ran out of memory");
    }
    if (finding.verdict == Verdict::kFail) {
      unfit_ = true;
      finding.advice = "take one of the alternatives";
    }
    findings_.push_back(std::move(finding));
  }

  void AddAlternatives(int64_t limit) {
    const double share = std::min(threshold("plan.memory"), 1.0);
    const int64_t room =
        limit > 0 ? static_cast<int64_t>(share * static_cast<double>(limit))
                  : INT64_MAX;
    json& out = plan_["alternatives"] = json::array();
    const auto found = FindAlternatives(
        {spec_, job_.model, traits_, job_.rows, times_, epochs_}, room);
    for (const Alternative& a : found) {
      json one = {{"patch", a.patch.dump()},
                  {"changes", a.changes},
                  {"memory_bytes", a.memory_bytes},
                  {"note", a.note}};
      if (a.seconds_per_step) one["seconds_per_step"] = *a.seconds_per_step;
      if (a.train_seconds) {
        one["total_seconds"] =
            *a.train_seconds + evaluation_seconds().value_or(0);
      }
      out.push_back(std::move(one));
    }
    if (!found.empty()) return;
    findings_.push_back(
        {.name = "plan.alternatives",
         .verdict = Verdict::kFail,
         .found = "no smaller micro-batch, recomputation, shorter row or "
                  "4-bit base fits",
         .advice = "take a smaller model, or a machine with more memory"});
  }

  // Takes all evaluations of the run; nullopt without a time.
  std::optional<double> evaluation_seconds() const {
    if (job_.rows.eval == nullptr) return 0;
    const std::optional<double> once = times_.EvaluationSeconds(CountEvaluation(
        shapes_, *job_.rows.eval, *job_.rows.train,
        spec_.training.per_device_train_batch_size, spec_.training.max_length));
    if (!once) return std::nullopt;
    return *once * static_cast<double>(evaluations_);
  }

  void AddTime() {
    const StepCost& cost = times_.cost();
    json& time = plan_["time"];
    time = {{"source", NameOf(times_.source())},
            {"operations_per_step", cost.operations()},
            {"bytes_per_step", cost.bytes()},
            {"rates", rates_ ? rates_->source : ""},
            {"runs", job_.facts.pace ? job_.facts.pace->runs : 0}};
    if (const auto seconds = times_.roofline_seconds()) {
      time["roofline_seconds_per_step"] = *seconds;
    }
    Finding finding{.name = "plan.time", .found = ""};
    const std::optional<double> epoch = times_.Seconds(spec_, epoch_);
    if (!epoch) {
      finding.found = absl::StrCat(
          "unknown: no probe, no run of this shape on this device, and no "
          "rates of ",
          job_.facts.chip.empty() ? "its chip" : job_.facts.chip);
      finding.advice = "plan with a probe";
      findings_.push_back(std::move(finding));
      return;
    }
    const double step = *epoch / static_cast<double>(epoch_.steps);
    const double train = step * static_cast<double>(total_steps_);
    const double evaluations = evaluation_seconds().value_or(0);
    const double scale = images() ? static_cast<double>(image_tokens()) : 1;
    time["seconds_per_step"] = step;
    time["train_seconds"] = train;
    time["evaluation_seconds"] = evaluations;
    time["total_seconds"] = train + evaluations;
    time["tokens_per_second"] =
        scale * static_cast<double>(epoch_.tokens) / *epoch;
    finding.verdict = Verdict::kPass;
    constexpr double kWhole = 10;  // from here on without decimals
    const double total = train + evaluations;
    finding.found =
        absl::StrFormat("%.3g s a step, %d steps, %.*f s in all", step,
                        total_steps_, total < kWhole ? 2 : 0, total);
    finding.value = train + evaluations;
    finding.unit = "s";
    findings_.push_back(std::move(finding));
  }

  void AddDisk() {
    const DiskNeed need = DiskOf(spec_, job_.model, checkpoints_);
    json& disk = plan_["disk"];
    disk = {{"checkpoint_bytes", need.checkpoint_bytes},
            {"checkpoints_kept", need.checkpoints_kept},
            {"result_bytes", need.result_bytes},
            {"total_bytes", need.total_bytes()}};
    const int64_t free = job_.facts.disk_free_bytes;
    Finding finding{.name = "plan.disk",
                    .found = base::BytesText(need.total_bytes())};
    if (free > 0) {
      disk["free_bytes"] = free;
      const double share = Share(need.total_bytes(), free);
      finding.value = share;
      finding.threshold = threshold("plan.disk");
      finding.unit = "ratio";
      finding.verdict =
          share > *finding.threshold ? Verdict::kFail : Verdict::kPass;
      absl::StrAppend(&finding.found, " of ", base::BytesText(free), " free");
      if (finding.verdict == Verdict::kFail) {
        finding.advice =
            "set training.save_total_limit, raise training.save_steps, or "
            "delete jobs";
      }
    }
    findings_.push_back(std::move(finding));
  }

  void AddWarnings() {
    for (const std::string& warning : job_.warnings) {
      findings_.push_back(
          {.name = "plan.job", .verdict = Verdict::kWarn, .found = warning});
    }
  }

  const PlannedJob& job_;
  const backend::Traits& traits_;
  const spec::TrainSpec spec_;  // with its micro-batch
  const data::BatchShapes shapes_;
  const MemoryNeed memory_;
  const data::LoaderOptions own_;
  const Epoch epoch_;
  const std::optional<Rates> rates_;
  const StepTimes times_;
  int64_t total_steps_ = 0, evaluations_ = 0;
  CheckpointCount checkpoints_;
  double epochs_ = 0;
  bool unfit_ = false;
  json plan_;
  std::vector<Finding> findings_;
};

}  // namespace

json MakePlan(const PlannedJob& job) { return Planner(job).Make(); }

}  // namespace mpsd::plan
