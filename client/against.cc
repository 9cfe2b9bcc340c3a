// SPDX-License-Identifier: Apache-2.0
#include "client/against.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "core/base/json_depth.h"
#include "core/base/limits.h"
#include "core/base/small_file.h"
#include "core/runbook/parity_options.h"

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kDevices[] = {"cpu", "cuda", "mps"};
constexpr size_t kFileBytes = 256 << 20;
// The options as JSON; the job's other words fit beside them.
constexpr size_t kOptionBytes = limits::kStudyBytes - (8 << 10);
constexpr int kDefaultSteps = runbook::kParitySteps;
constexpr int kMostSteps = runbook::kMostParitySteps;

struct Line {
  double loss = 0;
  std::optional<double> grad_norm;
  std::optional<int> label_tokens;
};

struct Written {
  std::map<int, Line> losses;    // by step; the last of a step counts
  std::map<int, double> metric;  // by step
};

std::optional<double> NumberIn(const Json& object, const std::string& name) {
  const auto it = object.find(name);
  if (it == object.end() || !it->is_number()) return std::nullopt;
  const double number = it->get<double>();
  if (!std::isfinite(number)) return std::nullopt;
  return number;
}

std::optional<int> StepIn(const Json& object) {
  const auto step = NumberIn(object, "step");
  if (!step || *step < 1 || *step > 1e9 || *step != std::floor(*step)) {
    return std::nullopt;
  }
  return static_cast<int>(*step);
}

// One line of a run's record; lines of other kinds say nothing.
void Take(const Json& object, const std::string& metric, Written& out) {
  const auto step = object.is_object() ? StepIn(object) : std::nullopt;
  if (!step) return;
  if (const auto loss = NumberIn(object, "loss")) {
    Line& line = out.losses[*step];
    line.loss = *loss;
    line.grad_norm = NumberIn(object, "grad_norm");
    line.label_tokens.reset();
    if (const auto tokens = NumberIn(object, "label_tokens")) {
      line.label_tokens = static_cast<int>(*tokens);
    }
  }
  std::optional<double> value = NumberIn(object, absl::StrCat("eval_", metric));
  const auto metrics = object.find("metrics");
  if (!value && metrics != object.end() && metrics->is_object()) {
    value = NumberIn(*metrics, metric);
  }
  if (value) out.metric[*step] = *value;
}

absl::Status TakeLines(const std::string& path, std::string_view text,
                       const std::string& metric, Written& out) {
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    // A run that was killed has written a part of its last line.
    const bool last = end == std::string_view::npos;
    text = last ? std::string_view() : text.substr(end + 1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const Json object = base::ParseTree<Json>(line);
    if (object.is_discarded() && !last) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", number, ": expected a JSON object"));
    }
    if (!object.is_discarded()) Take(object, metric, out);
  }
  return absl::OkStatus();
}

// Nine digits are more than a loss in fp32 has, and take half the room.
double Short(double value) {
  double shorter = value;
  return absl::SimpleAtod(absl::StrFormat("%.9g", value), &shorter) ? shorter
                                                                    : value;
}

absl::Status SetRecorded(const std::string& path, const Written& written,
                         const std::string& metric,
                         v1::ParityOptions* options) {
  if (written.losses.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": expected a result of parity, mpsd's metrics.jsonl, ",
        "Transformers' trainer_state.json, or a JSON object a line with "
        "\"step\" and \"loss\"; found none of them"));
  }
  if (options->steps() == 0) {
    options->set_steps(std::max(
        kDefaultSteps, std::min(written.losses.begin()->first, kMostSteps)));
  }
  const int steps = options->steps();
  if (written.losses.begin()->first > steps) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": its first loss is that of step ",
                     written.losses.begin()->first,
                     "; ask for as many --steps, at most ", kMostSteps));
  }
  v1::RecordedRun& recorded = *options->mutable_recorded();
  bool all_norms = true, all_tokens = true;
  for (const auto& [step, line] : written.losses) {
    if (step > steps) break;
    if (recorded.steps_size() == limits::kRecordedLosses) break;
    recorded.add_steps(step);
    recorded.add_losses(Short(line.loss));
    all_norms = all_norms && line.grad_norm.has_value();
    all_tokens = all_tokens && line.label_tokens.has_value();
    recorded.add_grad_norms(Short(line.grad_norm.value_or(0)));
    recorded.add_label_tokens(line.label_tokens.value_or(0));
  }
  if (!all_norms) recorded.clear_grad_norms();
  // A record that has not each step does not have each step's tokens.
  if (!all_tokens ||
      recorded.steps_size() != recorded.steps(recorded.steps_size() - 1)) {
    recorded.clear_label_tokens();
  }
  auto after = written.metric.upper_bound(steps);
  if (after != written.metric.begin()) {
    --after;
    recorded.set_metric(metric);
    recorded.set_metric_step(after->first);
    recorded.set_metric_value(after->second);
  }
  return absl::OkStatus();
}

size_t JsonBytes(const v1::ParityOptions& options) {
  google::protobuf::util::JsonPrintOptions print;
  print.preserve_proto_field_names = true;
  std::string json;
  if (!MessageToJsonString(options, &json, print).ok()) return 0;
  return json.size();
}

void MakeFit(v1::ParityOptions* options) {
  if (JsonBytes(*options) <= kOptionBytes) return;
  if (options->has_recorded()) {
    options->mutable_recorded()->clear_grad_norms();
    return;
  }
  v1::ParityTrace& trace = *options->mutable_trace();
  for (v1::TensorTrace& tensor : *trace.mutable_tensors()) {
    tensor.clear_first();
  }
  // What is left of the batches tells of the first steps.
  while (JsonBytes(*options) > kOptionBytes && trace.batches_size() > 100) {
    trace.mutable_batches()->DeleteSubrange(
        trace.batches_size() / 2,
        trace.batches_size() - trace.batches_size() / 2);
  }
  while (JsonBytes(*options) > kOptionBytes && trace.tensors_size() > 0) {
    const int less = std::max(1, trace.tensors_size() / 10);
    trace.mutable_tensors()->DeleteSubrange(trace.tensors_size() - less, less);
  }
}

absl::Status SetTrace(const std::string& path, const Json& result,
                      v1::ParityOptions* options) {
  const Json::json_pointer place("/parity/trace");
  google::protobuf::util::JsonParseOptions lenient;
  lenient.ignore_unknown_fields = true;  // of a newer mpsd
  v1::ParityTrace& trace = *options->mutable_trace();
  if (!result.contains(place) ||
      !JsonStringToMessage(result[place].dump(), &trace, lenient).ok() ||
      trace.losses().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": expected a result of `mpsctl parity --json`; found one of ",
        "another study, or a part of it"));
  }
  if (options->steps() == 0) {
    options->set_steps(std::min(options->trace().losses_size(), kMostSteps));
  }
  return absl::OkStatus();
}

absl::Status SetFile(const std::string& path, const std::string& metric,
                     v1::ParityOptions* options) {
  const absl::StatusOr<std::string> text =
      base::ReadSmallFile(path, kFileBytes);
  if (!text.ok()) return text.status();
  const fs::path name = fs::path(path).filename();
  options->set_name(name.string().substr(0, runbook::kParityNameBytes));
  const Json whole = base::ParseTree<Json>(*text);
  if (whole.is_object() && whole.contains("findings")) {
    return SetTrace(path, whole, options);
  }
  Written written;
  const Json* entries = &whole;
  if (whole.is_object() && whole.contains("log_history")) {
    entries = &whole["log_history"];
  }
  if (entries->is_array()) {
    for (const Json& entry : *entries) Take(entry, metric, written);
  } else {
    absl::Status taken = TakeLines(path, *text, metric, written);
    if (!taken.ok()) return taken;
  }
  const fs::path evaluations = fs::path(path).parent_path() / "eval.jsonl";
  std::error_code ignored;
  if (name == "metrics.jsonl" && fs::exists(evaluations, ignored)) {
    const auto lines = base::ReadSmallFile(evaluations, kFileBytes);
    if (!lines.ok()) return lines.status();
    absl::Status taken =
        TakeLines(evaluations.string(), *lines, metric, written);
    if (!taken.ok()) return taken;
  }
  return SetRecorded(path, written, metric, options);
}

}  // namespace

absl::Status SetAgainst(const std::string& against, const std::string& metric,
                        v1::ParityOptions* options) {
  if (std::find(std::begin(kDevices), std::end(kDevices), against) !=
      std::end(kDevices)) {
    options->set_reference_device(against);
    return absl::OkStatus();
  }
  std::string name(absl::StripPrefix(metric, "eval_"));
  absl::Status set = SetFile(against, name.empty() ? "loss" : name, options);
  if (set.ok()) MakeFit(options);
  return set;
}

}  // namespace mpsd::client
