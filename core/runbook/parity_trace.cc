// SPDX-License-Identifier: Apache-2.0
#include "core/runbook/parity_trace.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/sha256.h"
#include "core/runbook/option_values.h"

namespace mpsd::runbook {
namespace {

using Json = nlohmann::json;

constexpr size_t kTextBytes = 4096;  // of a name or a description

nlohmann::json ToJson(const TensorSummary& summary) {
  return {{"norm", summary.norm},
          {"sha256", summary.sha256},
          {"probes", summary.probes}};
}

// Reads the members of one message. A member that is absent has its default,
// as in every proto message; the first that is wrong is kept.
class Members {
 public:
  Members(const Json& json, std::string path)
      : json_(json), path_(std::move(path)) {
    if (!json.is_object()) Refuse("", "an object", json);
  }

  void Take(const char* name, std::string& out) {
    const Json* member = Find(name);
    if (member == nullptr) return;
    if (!member->is_string() ||
        member->get_ref<const std::string&>().size() > kTextBytes) {
      return Refuse(name,
                    absl::StrCat("a text of at most ", kTextBytes, " bytes"),
                    *member);
    }
    out = member->get<std::string>();
  }
  void Take(const char* name, double& out) {
    const Json* member = Find(name);
    if (member != nullptr) Number(name, *member, out);
  }
  void Take(const char* name, int64_t& out) {
    const Json* member = Find(name);
    if (member != nullptr) Integer(name, *member, out);
  }
  void Take(const char* name, std::vector<double>& out, size_t most) {
    for (const Json& value : Array(name, most)) {
      Number(name, value, out.emplace_back());
    }
  }
  void Take(const char* name, std::vector<float>& out, size_t most) {
    for (const Json& value : Array(name, most)) {
      double number = 0;
      Number(name, value, number);
      out.push_back(static_cast<float>(number));
    }
  }
  void Take(const char* name, std::vector<int64_t>& out, size_t most) {
    for (const Json& value : Array(name, most)) {
      Integer(name, value, out.emplace_back());
    }
  }
  void Take(const char* name, std::vector<std::string>& out, size_t most) {
    for (const Json& value : Array(name, most)) {
      if (!value.is_string()) return Refuse(name, "a list of texts", value);
      out.push_back(value.get<std::string>());
    }
  }

  // The member, or an empty list.
  const Json& Array(const char* name, size_t most) {
    static const Json empty = Json::array();
    const Json* member = Find(name);
    if (member == nullptr) return empty;
    if (!member->is_array()) {
      Refuse(name, "a list", *member);
      return empty;
    }
    if (member->size() > most) {
      Fail(name, absl::StrCat("has ", member->size(), " entries, at most ",
                              most, " are allowed"));
      return empty;
    }
    return *member;
  }
  const Json* Find(const char* name) {
    if (!status_.ok()) return nullptr;
    const auto it = json_.find(name);
    return it == json_.end() ? nullptr : &*it;
  }
  void Keep(const absl::Status& status) {
    if (status_.ok()) status_ = status;
  }
  void Fail(const char* name, const std::string& what) {
    Keep(absl::InvalidArgumentError(absl::StrCat(PathOf(name), ": ", what)));
  }
  const absl::Status& status() const { return status_; }
  const std::string& path() const { return path_; }

 private:
  std::string PathOf(const char* name) const {
    return absl::StrCat(path_, *name == 0 ? "" : ".", name);
  }
  void Refuse(const char* name, const std::string& allowed, const Json& given) {
    Keep(NotAllowed(PathOf(name), allowed, given));
  }
  void Number(const char* name, const Json& value, double& out) {
    // Protocol Buffers spell what is not finite as a text.
    if (!value.is_number() || !std::isfinite(value.get<double>())) {
      return Refuse(name, "a finite number", value);
    }
    out = value.get<double>();
  }
  void Integer(const char* name, const Json& value, int64_t& out) {
    const double number = value.is_number() ? value.get<double>() : -1;
    if (!(number >= 0 && number <= std::numeric_limits<int32_t>::max()) ||
        number != std::floor(number)) {
      return Refuse(name, "a whole number of 0 or more", value);
    }
    out = static_cast<int64_t>(number);
  }

  const Json& json_;
  const std::string path_;
  absl::Status status_;
};

void TakeSummary(Members& parent, const char* name, TensorSummary& out) {
  const Json* json = parent.Find(name);
  if (json == nullptr) return;
  Members members(*json, absl::StrCat(parent.path(), ".", name));
  members.Take("norm", out.norm);
  members.Take("sha256", out.sha256);
  members.Take("probes", out.probes, kProbes);
  parent.Keep(members.status());
}

}  // namespace

TensorSummary Summarize(std::span<const float> values) {
  TensorSummary summary;
  double squares = 0;
  for (const float value : values) {
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  summary.norm = std::sqrt(squares);
  summary.sha256 =
      base::Sha256Hex(
          {reinterpret_cast<const char*>(values.data()), values.size_bytes()})
          .substr(0, kDigestDigits);
  const auto count = static_cast<int64_t>(values.size());
  const int64_t probes = std::min(count, kProbes);
  for (int64_t i = 0; i < probes; ++i) {
    summary.probes.push_back(values[static_cast<size_t>(i * count / probes)]);
  }
  return summary;
}

nlohmann::json ToJson(const ParityTrace& trace) {
  Json tensors = Json::array();
  for (const TensorTrace& tensor : trace.tensors) {
    if (tensors.size() == kTracedTensors) break;
    tensors.push_back({{"name", tensor.name},
                       {"elements", tensor.elements},
                       {"gradient", ToJson(tensor.gradient)},
                       {"first", ToJson(tensor.first)},
                       {"last", ToJson(tensor.last)}});
  }
  Json json = {{"device", trace.device},
               {"description", trace.description},
               {"dtype", trace.dtype},
               {"mpsd_version", trace.mpsd_version},
               {"torch_version", trace.torch_version},
               {"gradients", trace.gradients},
               {"losses", trace.losses},
               {"grad_norms", trace.grad_norms},
               {"batches", trace.batches},
               {"start", trace.start},
               {"tensors", std::move(tensors)}};
  if (!trace.metric.empty()) {
    json["metric"] = trace.metric;
    json["metric_value"] = trace.metric_value;
  }
  return json;
}

absl::StatusOr<ParityTrace> TraceFromJson(const nlohmann::json& json) {
  ParityTrace trace;
  Members members(json, "trace");
  members.Take("device", trace.device);
  members.Take("description", trace.description);
  members.Take("dtype", trace.dtype);
  members.Take("mpsd_version", trace.mpsd_version);
  members.Take("torch_version", trace.torch_version);
  members.Take("gradients", trace.gradients);
  members.Take("losses", trace.losses, limits::kRecordedLosses);
  members.Take("grad_norms", trace.grad_norms, limits::kRecordedLosses);
  members.Take("batches", trace.batches, limits::kRecordedLosses);
  members.Take("start", trace.start);
  members.Take("metric", trace.metric);
  members.Take("metric_value", trace.metric_value);
  for (const Json& item : members.Array("tensors", kTracedTensors)) {
    TensorTrace& tensor = trace.tensors.emplace_back();
    Members of_tensor(
        item, absl::StrCat("trace.tensors[", trace.tensors.size() - 1, "]"));
    of_tensor.Take("name", tensor.name);
    of_tensor.Take("elements", tensor.elements);
    TakeSummary(of_tensor, "gradient", tensor.gradient);
    TakeSummary(of_tensor, "first", tensor.first);
    TakeSummary(of_tensor, "last", tensor.last);
    members.Keep(of_tensor.status());
  }
  if (members.status().ok() && trace.losses.empty()) {
    members.Fail("losses", "must have one loss at least");
  }
  if (members.status().ok() && trace.dtype != "fp32" && trace.dtype != "bf16") {
    members.Fail("dtype", "must be fp32 or bf16");
  }
  if (!members.status().ok()) return members.status();
  return trace;
}

absl::StatusOr<RecordedRun> RecordedFromJson(const nlohmann::json& json) {
  RecordedRun run;
  Members members(json, "recorded");
  members.Take("steps", run.steps, limits::kRecordedLosses);
  members.Take("losses", run.losses, limits::kRecordedLosses);
  members.Take("grad_norms", run.grad_norms, limits::kRecordedLosses);
  members.Take("label_tokens", run.label_tokens, limits::kRecordedLosses);
  members.Take("metric", run.metric);
  members.Take("metric_value", run.metric_value);
  members.Take("metric_step", run.metric_step);
  if (!members.status().ok()) return members.status();
  const size_t count = run.steps.size();
  const auto fits = [&](size_t size) { return size == 0 || size == count; };
  if (count == 0 || run.losses.size() != count) {
    members.Fail("losses", "must be one for each of `steps`, and one at least");
  } else if (!fits(run.grad_norms.size()) || !fits(run.label_tokens.size())) {
    members.Fail("grad_norms, label_tokens",
                 "must be none, or one for each of `steps`");
  } else if (run.steps.front() < 1 ||
             std::adjacent_find(run.steps.begin(), run.steps.end(),
                                std::greater_equal<>()) != run.steps.end()) {
    members.Fail("steps", "must ascend, from 1 or more");
  }
  if (!members.status().ok()) return members.status();
  return run;
}

}  // namespace mpsd::runbook
