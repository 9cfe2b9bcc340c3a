// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/base/units.h"
#include "core/host/host.h"
#include "core/host/machine.h"
#include "core/report/runbook.h"
#include "core/study/measured_run.h"
#include "core/study/study.h"

namespace mpsd::study {
namespace {

using nlohmann::json;
using runbook::Finding;
using runbook::Verdict;

constexpr int64_t kStepsOfAnEpoch = 4;
constexpr char kFreeMemory[] =
    "close other programs that use memory, or make the job smaller";

// The machine and the process after one epoch.
struct Epoch {
  report::MemoryCounters memory;
  host::Reading host;
  std::vector<double> seconds;
  double loss = 0;  // summed over the steps
};

// The job on the first `rows` rows.
spec::TrainSpec Slice(spec::TrainSpec spec, int64_t rows) {
  spec.dataset.max_train_samples =
      std::min(rows, spec.dataset.max_train_samples.value_or(rows));
  return spec;
}

// The job itself, independent of its files' names on this machine.
std::string SpecText(spec::TrainSpec spec) {
  spec.name.clear();
  spec::VisitPaths(spec, [](const char*, std::string& path) { path.clear(); });
  return spec::ToJson(spec);
}

json EnvironmentOf(const Study& study, const train::Prepared& run) {
  return {{"mpsd_version", study.context.mpsd_version},
          {"torch_version", study.context.torch_version},
          {"operating_system", host::OperatingSystem()},
          {"processor", host::ProcessorName()},
          {"device_description", run.loaded.device->description()},
          {"variables", study.context.environment},
          {"train_sha256", run.loaded.data.train->hash()},
          {"spec_json", SpecText(*run.loaded.spec)}};
}

std::vector<double> ValuesOf(
    const std::vector<Epoch>& epochs,
    std::optional<int64_t> report::MemoryCounters::*counter) {
  std::vector<double> values;
  for (const Epoch& epoch : epochs) {
    if (const auto& value = epoch.memory.*counter) {
      values.push_back(static_cast<double>(*value));
    }
  }
  return values;
}

json ToJson(const Epoch& epoch, size_t number) {
  json result = {{"epoch", number},
                 {"step_seconds", SpreadOf(epoch.seconds).median}};
  const auto put = [&](const char* name, const std::optional<int64_t>& value) {
    if (value) result[name] = *value;
  };
  put("allocated_bytes", epoch.memory.current_allocated_bytes);
  put("driver_bytes", epoch.memory.driver_allocated_bytes);
  put("footprint_bytes", epoch.memory.footprint_bytes);
  put("swap_used_bytes", epoch.host.swap_used_bytes);
  if (epoch.host.thermal) {
    result["thermal"] = std::string(host::Name(*epoch.host.thermal));
  }
  if (epoch.host.memory_pressure) {
    result["memory_pressure"] =
        std::string(host::Name(*epoch.host.memory_pressure));
  }
  if (epoch.host.power_source) {
    result["power_source"] = std::string(host::Name(*epoch.host.power_source));
  }
  if (!epoch.seconds.empty()) {
    result["loss"] = epoch.loss / static_cast<double>(epoch.seconds.size());
  }
  return result;
}

Finding GrowthFinding(const std::vector<double>& bytes, const char* from,
                      double allowed) {
  if (bytes.size() < 2) {
    return {"smoke.memory_growth", Verdict::kUnknown, "unknown"};
  }
  const double growth = GrowthOf(bytes);
  return Judge(
      {.name = "smoke.memory_growth",
       .found = absl::StrFormat(
           "%s after epoch 1, %s after epoch %d, by the %s: %+.1f %%",
           base::BytesText(bytes.front()), base::BytesText(bytes.back()),
           bytes.size(), from, 100 * growth),
       .value = growth,
       .threshold = allowed,
       .unit = "ratio"},
      growth > allowed, Verdict::kFail,
      "memory grows from epoch to epoch: a long job would run out. Look at "
      "the job's log for warnings, at `mpsctl check profile` for operators on "
      "the "
      "CPU, and at other versions of torch; save_steps keeps the loss small "
      "meanwhile");
}

Finding SlopeFinding(const std::vector<double>& bytes, double allowed) {
  if (bytes.size() < 2 || bytes.front() <= 0) {
    return {"smoke.memory_slope", Verdict::kUnknown, "unknown"};
  }
  const double slope = SlopeOf(bytes), part = slope / bytes.front();
  return Judge({.name = "smoke.memory_slope",
                .found = absl::StrFormat("%s an epoch, %+.2f %% of the first",
                                         base::BytesText(slope), 100 * part),
                .value = part,
                .threshold = allowed,
                .unit = "ratio"},
               part > allowed, Verdict::kWarn,
               "a job of many epochs may run out of memory");
}

// What the driver holds beyond live tensors: caches, fragmented heaps.
Finding OverheadFinding(const std::vector<Epoch>& epochs, double allowed) {
  Finding finding = {"smoke.driver_overhead", Verdict::kUnknown,
                     "unknown: the device has no such counters"};
  const auto driver =
      ValuesOf(epochs, &report::MemoryCounters::driver_allocated_bytes);
  const auto live =
      ValuesOf(epochs, &report::MemoryCounters::current_allocated_bytes);
  if (driver.size() < 2 || live.size() != driver.size()) return finding;
  const double first = driver.front() - live.front();
  const double last = driver.back() - live.back();
  const double all = static_cast<double>(
      epochs.back().memory.recommended_max_bytes.value_or(0));
  finding.found =
      absl::StrCat("the driver holds ", base::BytesText(driver.back()),
                   ", live tensors take ", base::BytesText(live.back()),
                   "; the difference grew by ", base::BytesText(last - first));
  if (all <= 0) return finding;
  const double growth = (last - first) / all;
  finding.value = growth;
  finding.threshold = allowed;
  finding.unit = "ratio";
  return Judge(
      std::move(finding), growth > allowed, Verdict::kWarn,
      "the driver's heaps are fragmented or full of compiled graphs: rows of "
      "fewer lengths (group_by_length, packing) need fewer of both");
}

// Of the machine, from the first epoch to the last; absent: unknown.
std::optional<int64_t> SwapGrowth(const std::vector<Epoch>& epochs) {
  if (epochs.empty()) return std::nullopt;
  const auto& first = epochs.front().host.swap_used_bytes;
  const auto& last = epochs.back().host.swap_used_bytes;
  if (!first || !last) return std::nullopt;
  return *last - *first;
}

Finding SwapFinding(const std::vector<Epoch>& epochs, double allowed) {
  const std::optional<int64_t> growth = SwapGrowth(epochs);
  if (!growth) return {"smoke.swap", Verdict::kUnknown, "unknown"};
  const auto bytes = static_cast<double>(*growth);
  return Judge({.name = "smoke.swap",
                .found = absl::StrCat("the machine's swap changed by ",
                                      base::BytesText(bytes)),
                .value = bytes,
                .threshold = allowed,
                .unit = "bytes"},
               bytes > allowed, Verdict::kWarn, kFreeMemory);
}

// The worst level over all epochs; unknown if no epoch has it.
template <typename Level>
Finding LevelFinding(const char* name, const char* what,
                     const std::vector<Epoch>& epochs,
                     std::optional<Level> host::Reading::*level, Level warns,
                     const char* advice) {
  std::optional<Level> worst;
  for (const Epoch& epoch : epochs) {
    const std::optional<Level>& now = epoch.host.*level;
    if (now && (!worst || *now > *worst)) worst = now;
  }
  if (!worst) return {name, Verdict::kUnknown, "unknown"};
  return Judge({.name = name,
                .found = absl::StrCat(
                    what, ": ", std::string(host::Name(*worst)), " at worst")},
               *worst >= warns, Verdict::kWarn, advice);
}

// Trains the epochs and records the state after each.
class Epochs {
 public:
  Epochs(const Study& study, int64_t count)
      : study_(study), count_(count), progress_(study.observer, 0) {}

  absl::StatusOr<Measurement> Train(int64_t rows) {
    MeasuredRun run(Slice(study_.spec, rows), study_.context, progress_);
    MeasureOptions options;
    options.epochs = count_;
    options.prepared = [this](const train::Prepared& now) {
      Prepare(now);
      return absl::OkStatus();
    };
    options.after_step = [this](const MeasuredStep& step) {
      Note(step);
      return true;
    };
    auto found = run.Measure(options);
    all_.pop_back();  // the one after the last, or one cut short
    prepared_ = nullptr;
    return found;
  }

  const std::vector<Epoch>& all() const { return all_; }
  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  int64_t rows() const { return rows_; }
  json environment() const {
    json environment = environment_;
    if (!model_.empty()) environment["model_sha256"] = model_;
    return environment;
  }

 private:
  void Prepare(const train::Prepared& now) {
    prepared_ = &now;
    steps_per_epoch_ = now.loader->steps_per_epoch();
    rows_ = now.loaded.data.train->size();
    progress_.set_total_steps(count_ * steps_per_epoch_);
    environment_ = EnvironmentOf(study_, now);
  }

  void Note(const MeasuredStep& step) {
    Epoch& epoch = all_.back();
    if (!step.held) {
      epoch.seconds.push_back(step.progress.seconds);
      epoch.loss += step.progress.loss;
    }
    if (step.progress.step % steps_per_epoch_ != 0) return;
    epoch.memory = step.progress.memory;
    epoch.host = host_->Read();
    // The files are hashed during the first step.
    model_ = prepared_->manifest.model_sha256;
    all_.emplace_back();
  }

  const Study& study_;
  const int64_t count_;
  StudyProgress progress_;
  const std::unique_ptr<host::Host> host_ = host::OpenHost();
  const train::Prepared* prepared_ = nullptr;
  std::vector<Epoch> all_ = std::vector<Epoch>(1);
  int64_t steps_per_epoch_ = 1, rows_ = 0;
  json environment_;
  std::map<std::string, std::string> model_;
};

// The counter by which growth is judged: the driver's, if the device has one.
struct Curve {
  const char* from = "footprint";
  std::vector<double> bytes;
};

Curve CurveOf(const std::vector<Epoch>& epochs) {
  using report::MemoryCounters;
  if (!epochs.empty() && epochs.front().memory.driver_allocated_bytes) {
    return {"driver",
            ValuesOf(epochs, &MemoryCounters::driver_allocated_bytes)};
  }
  return {"footprint", ValuesOf(epochs, &MemoryCounters::footprint_bytes)};
}

json ResultOf(const Epochs& epochs, const Measurement& run,
              const Curve& curve) {
  json result = {{"device", run.device},
                 {"environment", epochs.environment()},
                 {"rows", epochs.rows()},
                 {"step_rows", run.step_rows},
                 {"steps_per_epoch", epochs.steps_per_epoch()},
                 {"step_seconds", study::ToJson(run.Seconds())},
                 {"memory_from", curve.from},
                 {"memory_growth", GrowthOf(curve.bytes)},
                 {"slope_bytes_per_epoch", SlopeOf(curve.bytes)},
                 {"epochs", json::array()}};
  for (size_t i = 0; i < epochs.all().size(); ++i) {
    result["epochs"].push_back(ToJson(epochs.all()[i], i + 1));
  }
  return result;
}

std::vector<Finding> FindingsOf(const std::vector<Epoch>& epochs,
                                const Measurement& run, const Curve& curve,
                                const runbook::Thresholds& thresholds) {
  std::vector<Finding> findings;
  if (run.out_of_memory) {
    findings.push_back({"smoke.out_of_memory", Verdict::kFail,
                        absl::StrCat("out of memory after ", run.steps.size(),
                                     " steps: ", run.out_of_memory_text),
                        "`mpsctl check batch JOB` finds the batches that fit"});
  }
  findings.push_back(GrowthFinding(curve.bytes, curve.from,
                                   thresholds.Get("smoke.memory_growth")));
  findings.push_back(
      SlopeFinding(curve.bytes, thresholds.Get("smoke.memory_slope")));
  findings.push_back(
      OverheadFinding(epochs, thresholds.Get("smoke.overhead_growth")));
  findings.push_back(SwapFinding(epochs, thresholds.Get("smoke.swap_growth")));
  findings.push_back(
      LevelFinding("smoke.thermal", "heat", epochs, &host::Reading::thermal,
                   host::Thermal::kHeavy,
                   "the machine slows down because of heat: improve its "
                   "cooling, or expect longer runs"));
  findings.push_back(LevelFinding("smoke.memory_pressure", "memory pressure",
                                  epochs, &host::Reading::memory_pressure,
                                  host::MemoryPressure::kWarn, kFreeMemory));
  return findings;
}

}  // namespace

absl::StatusOr<Found> Smoke(const Study& study) {
  const spec::TrainingSpec& training = study.spec.training;
  ASSIGN_OR_RETURN(const auto options,
                   runbook::SmokeOptionsFromJson(study.options));
  const int64_t rows = options.rows > 0
                           ? options.rows
                           : kStepsOfAnEpoch *
                                 training.per_device_train_batch_size *
                                 training.gradient_accumulation_steps;
  Epochs epochs(study,
                static_cast<int64_t>(study.thresholds.Get("smoke.epochs")));
  ASSIGN_OR_RETURN(const Measurement run, epochs.Train(rows));
  const Curve curve = CurveOf(epochs.all());
  Found found;
  found.result = ResultOf(epochs, run, curve);
  if (const auto growth = SwapGrowth(epochs.all())) {
    found.result["swap_growth_bytes"] = *growth;
  }
  found.findings = FindingsOf(epochs.all(), run, curve, study.thresholds);
  return found;
}

}  // namespace mpsd::study
