// SPDX-License-Identifier: Apache-2.0
#include "core/plan/facts.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace mpsd::plan {
namespace {

using nlohmann::json;

// Reads members of one object; keeps the first fault.
class Members {
 public:
  Members(const json& object, std::string place)
      : object_(object), place_(std::move(place)) {
    if (!object.is_object()) Refuse("", "an object");
  }

  void Read(const char* name, std::string* out) {
    const json* value = Find(name);
    if (value == nullptr) return;
    if (!value->is_string()) return Refuse(name, "a text");
    *out = value->get<std::string>();
  }
  void Read(const char* name, double* out) {
    const json* value = Find(name);
    if (value == nullptr) return;
    double number = 0;
    // Protocol Buffers write 64-bit integers as strings.
    const bool read =
        value->is_number()
            ? (number = value->get<double>(), true)
            : value->is_string() &&
                  absl::SimpleAtod(value->get<std::string>(), &number);
    if (!read || !std::isfinite(number) || number < 0) {
      return Refuse(name, "a number of 0 or more");
    }
    *out = number;
  }
  void Read(const char* name, int64_t* out) {
    double number = 0;
    Read(name, &number);
    constexpr double kMost = 9e18;
    if (number > 0) {
      *out = static_cast<int64_t>(std::min(std::floor(number), kMost));
    }
  }
  void Read(const char* name, std::vector<std::string>* out) {
    const json* value = Find(name);
    if (value == nullptr) return;
    if (!value->is_array()) return Refuse(name, "a list of strings");
    for (const json& item : *value) {
      if (!item.is_string()) return Refuse(name, "a list of strings");
      out->push_back(item.get<std::string>());
    }
  }
  void Read(const char* name, bool* out) {
    const json* value = Find(name);
    if (value == nullptr) return;
    if (!value->is_boolean()) return Refuse(name, "true or false");
    *out = value->get<bool>();
  }
  // Null if the member is absent.
  const json* Find(const char* name) const {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  const absl::Status& status() const { return status_; }
  // Adds the fault of an object within this one.
  void Take(const absl::Status& status) { status_.Update(status); }

 private:
  void Refuse(const char* name, const char* expected) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(absl::StrCat(
        place_, *name == '\0' ? "" : ".", name, ": expected ", expected));
  }

  const json& object_;
  const std::string place_;
  absl::Status status_;
};

void ReadRates(Members& members, Rates& rates) {
  members.Read("fp32_operations", &rates.fp32_operations);
  members.Read("half_operations", &rates.half_operations);
  members.Read("bytes", &rates.bytes);
  members.Read("call_seconds", &rates.call_seconds);
  members.Read("source", &rates.source);
}

void ReadPace(Members& members, Pace& pace) {
  int64_t runs = 0;
  members.Read("runs", &runs);
  members.Read("step_seconds", &pace.step_seconds);
  members.Read("tokens_per_second", &pace.tokens_per_second);
  pace.runs = static_cast<int32_t>(
      std::min<int64_t>(runs, std::numeric_limits<int32_t>::max()));
}

void ReadProbe(Members& members, ProbeFigures& probe) {
  members.Read("peak_bytes", &probe.peak_bytes);
  members.Read("out_of_memory", &probe.out_of_memory);
  if (const json* spread = members.Find("step_seconds")) {
    Members seconds(*spread, "facts.probe.step_seconds");
    seconds.Read("median", &probe.step_seconds);
    members.Take(seconds.status());
  }
}

// Reads the object `name` of the facts, if it is there.
template <typename T>
absl::Status ReadPart(const Members& facts, const char* name,
                      void (*read)(Members&, T&), std::optional<T>& out) {
  const json* object = facts.Find(name);
  if (object == nullptr) return absl::OkStatus();
  Members members(*object, absl::StrCat("facts.", name));
  read(members, out.emplace());
  return members.status();
}

}  // namespace

absl::StatusOr<Facts> ParseFacts(std::string_view text) {
  const json parsed = base::ParseTree<json>(text);
  if (!parsed.is_object()) {
    return absl::InvalidArgumentError("facts: expected a JSON object");
  }
  Facts facts;
  Members members(parsed, "facts");
  members.Read("check", &facts.check);
  members.Read("read_roots", &facts.read_roots);
  members.Read("closed_roots", &facts.closed_roots);
  members.Read("device", &facts.device);
  members.Read("chip", &facts.chip);
  members.Read("gpu_cores", &facts.gpu_cores);
  members.Read("cpu_cores", &facts.cpu_cores);
  members.Read("memory_bytes", &facts.memory_bytes);
  members.Read("memory_limit_bytes", &facts.memory_limit_bytes);
  members.Read("disk_free_bytes", &facts.disk_free_bytes);
  if (!members.status().ok()) return members.status();
  if (const json* thresholds = members.Find("thresholds")) {
    if (!thresholds->is_object()) {
      return absl::InvalidArgumentError(
          "facts.thresholds: expected an object of numbers");
    }
    ASSIGN_OR_RETURN(auto read, runbook::Thresholds::FromJson(*thresholds));
    facts.thresholds = std::move(read);
  }
  RETURN_IF_ERROR(ReadPart(members, "rates", ReadRates, facts.rates));
  RETURN_IF_ERROR(ReadPart(members, "pace", ReadPace, facts.pace));
  RETURN_IF_ERROR(ReadPart(members, "probe", ReadProbe, facts.probe));
  return facts;
}

}  // namespace mpsd::plan
