// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/host/traits.h"
#include "core/spec/generation.h"

// What studies, plans and examinations share: findings, the thresholds that
// findings are compared with, and the options of studies.
namespace mpsd::runbook {

// --- findings ----------------------------------------------------------------

// The severity of a finding, as in proto/mpsd/v1/finding.proto.
enum class Verdict { kUnknown = 0, kPass = 1, kWarn = 2, kFail = 3 };

// "VERDICT_PASS" …, as in the API's JSON.
const char* NameOf(Verdict verdict);

// The result of one check; see Finding in proto/mpsd/v1/finding.proto.
struct Finding {
  std::string name;
  Verdict verdict = Verdict::kUnknown;
  std::string found;
  std::string advice = {};
  std::optional<double> value = {};
  std::optional<double> threshold = {};
  std::string unit = {};
};

// The message's JSON, with the .proto's field names.
nlohmann::json ToJson(const Finding& finding);

// kUnknown if all findings are.
Verdict Worst(const std::vector<Finding>& findings);

// The most severe first; otherwise the order is kept.
void SortBySeverity(std::vector<Finding>& findings);

// --- thresholds --------------------------------------------------------------

// A figure that a finding is compared with, and its source.
struct Threshold {
  const char* name;  // as users set it: "compare.speedup"
  double value;
  const char* unit;  // "ratio", "bytes", "s", "steps" …
  const char* source;
  // Its bounds, finite numbers; `whole`: without a fraction.
  double least = 0;
  double most = std::numeric_limits<double>::max();
  bool whole = false;
};

// The table of thresholds, in order of their names. Ratios are 0 to 1 unless
// the source says otherwise. "runbook" is the field's own runbook for MPS
// ("Three quotable thresholds for design reviews", "Reading torch.profiler");
// "mpsd" is our choice, with its reason.
inline constexpr Threshold kThresholds[] = {
    {"compare.gpu_utilization", 0.18, "ratio",
     "runbook: below it, with too small a gain, the data plane is at fault"},
    {"compare.gradient_bf16", 0.25, "ratio",
     "mpsd: the self-test's tolerance of a whole network in bf16"},
    {"compare.gradient_fp32", 2e-4, "ratio",
     "mpsd: the self-test's tolerance of a whole network; gradients of SmolLM2 "
     "are 2e-5 from those in double precision"},
    {"compare.loss_bf16", 0.5, "ratio",
     "mpsd: losses in bf16 are 15 % from those in fp32 on average, PEFT's too, "
     "at most 0.35 in SmolLM2's first steps: gradient and metric decide"},
    {"compare.loss_fp32", 5e-4, "ratio",
     "mpsd: 200 losses are within 2.3e-4 of PEFT's on one device; devices sum "
     "in other orders"},
    {"compare.metric_bf16", 0.02, "ratio",
     "runbook: a tolerance on the validation metric; the figure is mpsd's"},
    {"compare.metric_fp32", 5e-3, "ratio",
     "runbook: a tolerance on the validation metric; the figure is mpsd's"},
    {"compare.speedup", 0.22, "ratio",
     "runbook: the part by which a step has to be shorter than the CPU's"},
    {"doctor.certificate", 14, "days",
     "mpsd: the daemon's log warns this long before its certificate expires"},
    {"doctor.clock_skew", 2, "s", "mpsd: for comparing logs of two machines"},
    {"doctor.descriptors", 4096, "descriptors",
     "mpsd: a worker's limit (core/worker/process.h)"},
    {"doctor.disk_free", 20e9, "bytes",
     "mpsd: the checkpoints and the result of one 7B LoRA job, and its data"},
    {"doctor.disk_speed", 100e6, "bytes/s",
     "mpsd: below it, a 7B model takes more than two minutes to load"},
    {"doctor.gpu_busy", 0.1, "ratio",
     "mpsd: a display takes less; a tenth of a step's time is lost"},
    {"doctor.process_memory", 0.1, "ratio",
     "mpsd: of the machine's; programs with more are named"},
    {"doctor.processes", 1024, "processes",
     "mpsd: torch, its OpenMP and mpsd start some hundred threads"},
    {"doctor.round_trip", 0.25, "s",
     "mpsd: above it, uploads of many small files take minutes"},
    {"doctor.selftest_age", 30, "days",
     "mpsd: a newer fault of the driver would be missed"},
    {"doctor.swap", 0.1, "ratio",
     "mpsd: of the machine's memory; steps wait for the disk"},
    {"doctor.wired_limit", 0.9, "ratio",
     "mpsd: of the machine's memory; the system needs the rest itself"},
    {"plan.cut_rows", 0.05, "ratio",
     "mpsd: more cut rows than one in twenty are not outliers"},
    {"plan.disk", 1, "ratio",
     "mpsd: of the free space, from which mpsd's own reserve is taken off"},
    {"plan.dropped_rows", 0.05, "ratio",
     "mpsd: more rows without labels than one in twenty are a mistake"},
    {"plan.memory", 0.9, "ratio",
     "mpsd: of the device's memory limit; silent failures begin above it"},
    {"plan.padding", 0.3, "ratio",
     "mpsd: padding of a third costs half as much time again; packing has 2 %"},
    {"probe.estimate_error", 0.1, "ratio",
     "mpsd: the estimate is tested to be within a tenth of measured peaks"},
    {"probe.memory_share", 0.9, "ratio",
     "mpsd: of what the device recommends; the rest is uncounted memory"},
    {"profile.blocking_copies", 0, "calls a step",
     "mpsd: a step reads back once, at its end; each further wait empties the "
     "device's queue"},
    {"profile.data_share", 0.2, "ratio",
     "mpsd: a fifth of a step is worth fixing before the model"},
    {"profile.fallback_operators", 0, "operators",
     "runbook: hotspots that stay on fallback are named"},
    {"profile.steps", 50, "steps", "runbook: a narrow slice after warm-up", 1,
     1000, true},
    {"smoke.epochs", 10, "epochs", "runbook: memory is compared over ten", 2,
     1000, true},
    {"smoke.memory_growth", 0.26, "ratio",
     "runbook: unified memory, last epoch against the first"},
    {"smoke.memory_slope", 0.02, "ratio",
     "mpsd: of the first epoch's memory; fifty such epochs double it"},
    {"smoke.overhead_growth", 0.1, "ratio",
     "mpsd: driver's beyond live tensors, of the recommended memory, as the "
     "trainer's own warning"},
    {"smoke.swap_growth", 268435456, "bytes",
     "mpsd: a machine that swaps trains at its disk's speed"},
    {"sweep.knee", 0.05, "ratio",
     "mpsd: a gain of less than a twentieth is within short runs' noise"},
    {"sweep.memory_share", 0.9, "ratio",
     "mpsd: of what the device recommends; the rest is uncounted memory"},
};

// The thresholds of one request: the table's, with the request's changes.
class Thresholds {
 public:
  Thresholds() = default;
  // InvalidArgument for more than limits::kThresholds, for a name that the
  // table lacks, and for a value out of the threshold's bounds.
  static absl::StatusOr<Thresholds> FromMap(
      const std::map<std::string, double>& values);
  static absl::StatusOr<Thresholds> FromJson(const nlohmann::json& values);

  // Aborts unless `name` is one of kThresholds.
  double Get(std::string_view name) const;

 private:
  std::map<std::string, double, std::less<>> set_;
};

// --- values of options -------------------------------------------------------

// Fields of a study's options, which are a message as JSON: a field without
// presence is omitted if it is 0. Errors are InvalidArgument: "<field>: must be
// <what is allowed>, is <what was given>".

// The field's value, or `unset` if it is 0 or omitted.
absl::StatusOr<int64_t> IntOption(const nlohmann::json& options,
                                  const char* field, int64_t unset, int64_t min,
                                  int64_t max);
absl::StatusOr<double> NumberOption(const nlohmann::json& options,
                                    const char* field, double unset, double min,
                                    double max);

// The value of a field with presence, where 0 is an ordinary value; nullopt if
// the field is omitted.
absl::StatusOr<std::optional<int64_t>> IntIfThere(const nlohmann::json& options,
                                                  const char* field,
                                                  int64_t min, int64_t max);

// The device of that name, "cpu", "cuda" or "mps".
absl::StatusOr<backend::Choice> DeviceNamed(const std::string& field,
                                            const nlohmann::json& name);

// The error for a value of `field` that is not allowed.
absl::Status NotAllowed(const std::string& field, const std::string& allowed,
                        const nlohmann::json& given);

// --- options of studies ------------------------------------------------------

// The options of studies: the messages <Kind>Options of proto/mpsd/v1, parsed
// from their JSON, with their defaults and bounds. mpsd validates submissions
// with these functions and the worker parses its options with them, so that no
// job is queued with options that its worker rejects. Errors are
// InvalidArgument and begin with the field.

inline constexpr int64_t kMostStudySteps = 1000;  // measured or warm-up steps
inline constexpr int64_t kMostStudyBatch = 65536;
inline constexpr double kMostStudyBytes = 1e15;  // for a memory limit
inline constexpr int64_t kMostSmokeRows = 1'000'000;

struct ProbeOptions {
  int64_t warmup_steps = 2, steps = 8;
};
absl::StatusOr<ProbeOptions> ProbeOptionsFromJson(const nlohmann::json& json);

struct BatchSweepOptions {
  int64_t first_batch = 1;
  int64_t max_batch = 0;  // 0: the rows of the data
  int64_t steps = 6, warmup_steps = 2;
  double memory_limit_bytes = 0;  // 0: by the threshold sweep.memory_share
};
absl::StatusOr<BatchSweepOptions> BatchSweepOptionsFromJson(
    const nlohmann::json& json);

struct DeviceComparisonOptions {
  int64_t steps = 20, warmup_steps = 3;
  std::vector<backend::Choice> devices;  // none, or two
};
absl::StatusOr<DeviceComparisonOptions> DeviceComparisonOptionsFromJson(
    const nlohmann::json& json);

struct ProfileOptions {
  std::optional<int64_t> steps;  // absent: the threshold profile.steps
  int64_t warm_up_steps = 10;
};
absl::StatusOr<ProfileOptions> ProfileOptionsFromJson(
    const nlohmann::json& json);

struct SmokeOptions {
  int64_t rows = 0;  // 0: enough for four steps
};
absl::StatusOr<SmokeOptions> SmokeOptionsFromJson(const nlohmann::json& json);

struct GenerateOptions {
  bool raw = false, compare_base = false;
};
// Sets in *settings, unless null, what the options say of the generation.
absl::StatusOr<GenerateOptions> GenerateOptionsFromJson(
    const nlohmann::json& json, spec::GenerationSettings* settings = nullptr);

// Parses the options, including thresholds, of the study with this name in the
// message Study: "probe" … InvalidArgument also for another name.
absl::Status CheckStudyOptions(std::string_view study,
                               const nlohmann::json& options);

}  // namespace mpsd::runbook
