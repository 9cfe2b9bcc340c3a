// SPDX-License-Identifier: Apache-2.0
#include "server/store/event_body.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/json_depth.h"
#include "nlohmann/json.hpp"

namespace mpsd::store {
namespace {

using json = nlohmann::ordered_json;

// Each body's members, once, for both directions.
template <typename V>
void Fields(V& v, auto& b, const jobs::StateChanged*) {
  v("state", b.state);
  v("message", b.message);
}
template <typename V>
void Fields(V& v, auto& b, const jobs::Progress*) {
  v("step", b.step);
  v("total_steps", b.total_steps);
  v("epoch", b.epoch);
  v("loss", b.loss);
  v("learning_rate", b.learning_rate);
  v("grad_norm", b.grad_norm);
  v("tokens", b.tokens);
  v("label_tokens", b.label_tokens);
  v("step_seconds", b.step_seconds);
  v("padding_ratio", b.padding_ratio);
  v("data_wait_ratio", b.data_wait_ratio);
  v("tokens_per_second", b.tokens_per_second);
  v("eta_seconds", b.eta_seconds);
  v("device", b.device);
  v("current_allocated_bytes", b.memory.current_allocated_bytes);
  v("driver_allocated_bytes", b.memory.driver_allocated_bytes);
  v("recommended_max_bytes", b.memory.recommended_max_bytes);
  v("footprint_bytes", b.memory.footprint_bytes);
  v("peak_allocated_bytes", b.memory.peak_allocated_bytes);
  v("cpu_fallback_ops", b.cpu_fallback_ops);
}
template <typename V>
void Fields(V& v, auto& b, const jobs::Evaluated*) {
  v("step", b.step);
  v("eval_loss", b.eval_loss);
  v("metrics", b.metrics);
}
template <typename V>
void Fields(V& v, auto& b, const jobs::Checkpoint*) {
  v("step", b.step);
  v("path", b.path);
  v("size_bytes", b.size_bytes);
  v("seconds", b.seconds);
  v("create_time_us", b.create_time);
}
template <typename V>
void Fields(V& v, auto& b, const jobs::Note*) {
  v("text", b.text);
  v("is_warning", b.is_warning);
}

json Number(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

json ObjectOf(const jobs::Metrics& metrics) {
  json object = json::object();
  for (const auto& [name, value] : metrics) object[name] = Number(value);
  return object;
}

bool IsNumber(const json& field) {
  return field.is_number() || field.is_null();
}

double NumberOf(const json& field) {
  return field.is_null() ? std::numeric_limits<double>::quiet_NaN()
                         : field.get<double>();
}

std::string Dump(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

// False for what is no object of numbers.
bool ReadMetrics(const json& object, jobs::Metrics& metrics) {
  if (!object.is_object()) return false;
  metrics.clear();
  for (const auto& [name, value] : object.items()) {
    if (!IsNumber(value)) return false;
    metrics.emplace_back(name, NumberOf(value));
  }
  return true;
}

absl::Status Unreadable(const std::string& text) {
  return absl::DataLossError(
      absl::StrCat("the database holds an unreadable event: ", text));
}

class Writer {
 public:
  void operator()(const char* name, int64_t value) { out_[name] = value; }
  void operator()(const char* name, const std::string& value) {
    out_[name] = value;
  }
  void operator()(const char* name, double value) {
    out_[name] = Number(value);
  }
  void operator()(const char* name, bool value) {
    if (value) out_[name] = true;
  }
  void operator()(const char* name, jobs::State value) {
    out_[name] = static_cast<int>(value);
  }
  void operator()(const char* name, absl::Time value) {
    out_[name] = absl::ToUnixMicros(value);
  }
  template <typename T>
  void operator()(const char* name, const std::optional<T>& value) {
    if (value.has_value()) (*this)(name, *value);
  }
  void operator()(const char* name, const jobs::Metrics& value) {
    out_[name] = ObjectOf(value);
  }
  void operator()(const char* name,
                  const std::map<std::string, int64_t>& value) {
    if (!value.empty()) out_[name] = value;
  }
  std::string Text() const { return Dump(out_); }

 private:
  json out_ = json::object();
};

class Reader {
 public:
  explicit Reader(const json& in) : in_(in) {}
  bool ok() const { return ok_; }

  void operator()(const char* name, int64_t& value) {
    const json* field = Find(name);
    if (field == nullptr) return;
    ok_ = ok_ && field->is_number_integer();
    if (ok_) value = field->get<int64_t>();
  }
  void operator()(const char* name, std::string& value) {
    const json* field = Find(name);
    if (field == nullptr) return;
    ok_ = ok_ && field->is_string();
    if (ok_) value = field->get<std::string>();
  }
  void operator()(const char* name, double& value) {
    const json* field = Find(name);
    if (field == nullptr) return;
    ok_ = ok_ && IsNumber(*field);
    if (ok_) value = NumberOf(*field);
  }
  void operator()(const char* name, bool& value) {
    const json* field = Find(name);
    if (field == nullptr) return;
    ok_ = ok_ && field->is_boolean();
    if (ok_) value = field->get<bool>();
  }
  void operator()(const char* name, jobs::State& value) {
    int64_t number = 0;
    (*this)(name, number);
    bool known = false;
    for (jobs::State state : jobs::kAllStates) {
      if (number != static_cast<int>(state)) continue;
      value = state;
      known = true;
    }
    ok_ = ok_ && known;
  }
  void operator()(const char* name, absl::Time& value) {
    int64_t micros = 0;
    (*this)(name, micros);
    value = absl::FromUnixMicros(micros);
  }
  template <typename T>
  void operator()(const char* name, std::optional<T>& value) {
    if (Find(name) != nullptr) (*this)(name, value.emplace());
  }
  void operator()(const char* name, jobs::Metrics& value) {
    const json* field = Find(name);
    if (field != nullptr) ok_ = ok_ && ReadMetrics(*field, value);
  }
  void operator()(const char* name, std::map<std::string, int64_t>& value) {
    const json* field = Find(name);
    if (field == nullptr) return;
    ok_ = ok_ && field->is_object();
    if (!ok_) return;
    for (const auto& [key, count] : field->items()) {
      ok_ = ok_ && count.is_number_integer();
      if (ok_) value[key] = count.get<int64_t>();
    }
  }

 private:
  const json* Find(const char* name) const {
    auto field = in_.find(name);
    return field == in_.end() ? nullptr : &*field;
  }

  const json& in_;
  bool ok_ = true;
};

template <typename Body>
std::string Encode(const Body& body) {
  Writer writer;
  Fields(writer, body, &body);
  return writer.Text();
}

template <typename Body>
absl::StatusOr<Body> Decode(const std::string& text) {
  Body body{};
  const json object = base::ParseTree<json>(text);
  if (object.is_object()) {
    Reader reader(object);
    Fields(reader, body, &body);
    if (reader.ok()) return body;
  }
  return Unreadable(text);
}

template <typename Body>
absl::StatusOr<EventBody> DecodeAs(const std::string& text) {
  absl::StatusOr<Body> body = Decode<Body>(text);
  if (!body.ok()) return body.status();
  return EventBody(*std::move(body));
}

}  // namespace

int KindOf(const EventBody& body) { return static_cast<int>(body.index()) + 1; }

std::string EncodeBody(const EventBody& body) {
  return std::visit([](const auto& b) { return Encode(b); }, body);
}

absl::StatusOr<EventBody> DecodeBody(int kind, const std::string& text) {
  switch (kind) {
    case 1:
      return DecodeAs<jobs::StateChanged>(text);
    case kProgressKind:
      return DecodeAs<jobs::Progress>(text);
    case 3:
      return DecodeAs<jobs::Evaluated>(text);
    case 4:
      return DecodeAs<jobs::Checkpoint>(text);
    case 5:
      return DecodeAs<jobs::Note>(text);
    default:
      return absl::DataLossError(
          absl::StrCat("the database holds an event of unknown kind ", kind));
  }
}

std::string EncodeProgress(const jobs::Progress& progress) {
  return Encode(progress);
}

absl::StatusOr<jobs::Progress> DecodeProgress(const std::string& text) {
  return Decode<jobs::Progress>(text);
}

absl::StatusOr<jobs::Evaluated> DecodeEvaluated(const std::string& text) {
  return Decode<jobs::Evaluated>(text);
}

std::string EncodeMetrics(const jobs::Metrics& metrics) {
  return Dump(ObjectOf(metrics));
}

absl::StatusOr<jobs::Metrics> DecodeMetrics(const std::string& text) {
  jobs::Metrics metrics;
  const json object = base::ParseTree<json>(text);
  if (!ReadMetrics(object, metrics)) return Unreadable(text);
  return metrics;
}

std::string EncodeWarnings(const std::vector<std::string>& warnings) {
  return Dump(json(warnings));
}

absl::StatusOr<std::vector<std::string>> DecodeWarnings(
    const std::string& text) {
  const json list = base::ParseTree<json>(text);
  if (!list.is_array()) return Unreadable(text);
  std::vector<std::string> warnings;
  for (const json& warning : list) {
    if (!warning.is_string()) return Unreadable(text);
    warnings.push_back(warning.get<std::string>());
  }
  return warnings;
}

}  // namespace mpsd::store
