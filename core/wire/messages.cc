// SPDX-License-Identifier: Apache-2.0
#include "core/wire/messages.h"

#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/json_depth.h"
#include "nlohmann/json.hpp"

namespace mpsd::wire {
namespace {

// Keeps the members' order, which says how to show metrics.
using json = nlohmann::ordered_json;

// Each message's fields, once, for both directions: `v` is a Writer over a
// const message or a Reader over a mutable one.
template <typename V>
void Fields(V& v, auto& m, const Hello*) {
  v("version", m.version);
  v("pid", m.pid);
  v("worker_version", m.worker_version);
  v("torch_version", m.torch_version);
}
template <typename V>
void Fields(V& v, auto& m, const Start*) {
  v("job_id", m.job_id);
  v("spec_path", m.spec_path);
  v("output_dir", m.output_dir);
  v.Optional("read_roots", m.read_roots);
  v.Optional("kind", m.kind);
}
template <typename V>
void Fields(V& v, auto& m, const Stop*) {
  v("reason", m.reason);
}
template <typename V>
void Fields(V&, auto&, const Pause*) {}
template <typename V>
void Fields(V&, auto&, const Resume*) {}
template <typename V>
void Fields(V& v, auto& m, const Held*) {
  v("step", m.step);
}
template <typename V>
void Fields(V& v, auto& m, const Resumed*) {
  v("step", m.step);
}
template <typename V>
void Fields(V& v, auto& m, const MemoryCounters*) {
  v("current_allocated_bytes", m.current_allocated_bytes);
  v("driver_allocated_bytes", m.driver_allocated_bytes);
  v("recommended_max_bytes", m.recommended_max_bytes);
  v("footprint_bytes", m.footprint_bytes);
  v("peak_allocated_bytes", m.peak_allocated_bytes);
}
template <typename V>
void Fields(V& v, auto& m, const Progress*) {
  v("step", m.step);
  v("total_steps", m.total_steps);
  v("epoch", m.epoch);
  v("loss", m.loss);
  v("learning_rate", m.learning_rate);
  v("grad_norm", m.grad_norm);
  v("tokens", m.tokens);
  v("label_tokens", m.label_tokens);
  v("seconds", m.seconds);
  v("padded_tokens", m.padded_tokens);
  v("data_wait_seconds", m.data_wait_seconds);
  v("device", m.device);
  v("memory", m.memory);
  v("cpu_fallback_ops", m.cpu_fallback_ops);
}
template <typename V>
void Fields(V& v, auto& m, const Evaluated*) {
  v("step", m.step);
  v("eval_loss", m.eval_loss);
  v("label_tokens", m.label_tokens);
  v("seconds", m.seconds);
  v("metrics", m.metrics);
}
template <typename V>
void Fields(V& v, auto& m, const Checkpointed*) {
  v("step", m.step);
  v("path", m.path);
  v("bytes", m.bytes);
  v("seconds", m.seconds);
  v("removed_paths", m.removed_paths);
}
template <typename V>
void Fields(V& v, auto& m, const Heartbeat*) {
  v("stage", m.stage);
  v("fraction", m.fraction);
}
template <typename V>
void Fields(V& v, auto& m, const Warning*) {
  v("text", m.text);
}
template <typename V>
void Fields(V& v, auto& m, const Failed*) {
  v("kind", m.kind);
  v("message", m.message);
  v("error", m.error);
}
template <typename V>
void Fields(V& v, auto& m, const Done*) {
  v("steps", m.steps);
  v("output_path", m.output_path);
  v("output_kind", m.output_kind);
  v("train_loss", m.train_loss);
  v("eval_loss_before", m.eval_loss_before);
  v("eval_loss_after", m.eval_loss_after);
  v("seconds", m.seconds);
  v("metrics", m.metrics);
  v("confusion_matrix", m.confusion_matrix);
}
template <typename V>
void Fields(V& v, auto& m, const Stopped*) {
  v("reason", m.reason);
  v("step", m.step);
}

constexpr const char* TypeOf(const Hello*) { return "hello"; }
constexpr const char* TypeOf(const Start*) { return "start"; }
constexpr const char* TypeOf(const Stop*) { return "stop"; }
constexpr const char* TypeOf(const Pause*) { return "pause"; }
constexpr const char* TypeOf(const Resume*) { return "resume"; }
constexpr const char* TypeOf(const Held*) { return "held"; }
constexpr const char* TypeOf(const Resumed*) { return "resumed"; }
constexpr const char* TypeOf(const Progress*) { return "progress"; }
constexpr const char* TypeOf(const Evaluated*) { return "evaluated"; }
constexpr const char* TypeOf(const Checkpointed*) { return "checkpointed"; }
constexpr const char* TypeOf(const Heartbeat*) { return "heartbeat"; }
constexpr const char* TypeOf(const Warning*) { return "warning"; }
constexpr const char* TypeOf(const Failed*) { return "failed"; }
constexpr const char* TypeOf(const Done*) { return "done"; }
constexpr const char* TypeOf(const Stopped*) { return "stopped"; }

template <typename E>
struct EnumName {
  E value;
  const char* name;
};
constexpr EnumName<JobKind> kJobKinds[] = {{JobKind::kTraining, "training"}};
constexpr EnumName<StopReason> kStopReasons[] = {
    {StopReason::kPreempt, "preempt"}, {StopReason::kCancel, "cancel"}};
constexpr EnumName<FailureKind> kFailureKinds[] = {
    {FailureKind::kRejected, "rejected"},
    {FailureKind::kOutOfMemory, "out_of_memory"},
    {FailureKind::kNonFinite, "non_finite"},
    {FailureKind::kInternal, "internal"}};
constexpr EnumName<OutputKind> kOutputKinds[] = {
    {OutputKind::kAdapter, "adapter"}, {OutputKind::kModel, "model"}};
constexpr auto& NamesOf(JobKind) { return kJobKinds; }
constexpr auto& NamesOf(StopReason) { return kStopReasons; }
constexpr auto& NamesOf(FailureKind) { return kFailureKinds; }
constexpr auto& NamesOf(OutputKind) { return kOutputKinds; }

class Writer {
 public:
  explicit Writer(json& out) : out_(out) {}

  void operator()(const char* name, const std::string& value) {
    out_[name] = value;
  }
  void operator()(const char* name, int value) { out_[name] = value; }
  void operator()(const char* name, int64_t value) { out_[name] = value; }
  void operator()(const char* name, double value) {
    out_[name] = std::isfinite(value) ? json(value) : json(nullptr);
  }
  void operator()(const char* name, const MemoryCounters& value) {
    json object = json::object();
    Writer nested(object);
    Fields(nested, value, &value);
    out_[name] = std::move(object);
  }
  void operator()(const char* name, const Metrics& value) {
    json object = json::object();
    Writer nested(object);
    for (const auto& [metric, number] : value) nested(metric.c_str(), number);
    out_[name] = std::move(object);
  }
  void operator()(const char* name, const Counts& value) {
    if (!value.empty()) out_[name] = value;
  }
  void operator()(const char* name, const std::vector<std::string>& value) {
    out_[name] = value;
  }
  void Optional(const char* name, const std::vector<std::string>& value) {
    if (!value.empty()) (*this)(name, value);
  }
  // An enum's first value is left out.
  template <typename E>
  requires std::is_enum_v<E>
  void Optional(const char* name, E value) {
    if (value != E{}) (*this)(name, value);
  }
  template <typename T>
  void operator()(const char* name, const std::optional<T>& value) {
    if (value.has_value()) (*this)(name, *value);
  }
  template <typename E>
  requires std::is_enum_v<E>
  void operator()(const char* name, E value) {
    for (const auto& entry : NamesOf(value)) {
      if (entry.value == value) out_[name] = entry.name;
    }
  }

 private:
  json& out_;
};

// Fills fields until the first error, which it keeps.
class Reader {
 public:
  Reader(const json& in, std::string where)
      : in_(in), where_(std::move(where)) {}

  absl::Status status() const { return status_; }

  void operator()(const char* name, std::string& value) {
    const json* field = Required(name);
    if (field == nullptr) return;
    if (!field->is_string()) return IllTyped(name, "a string");
    value = field->get<std::string>();
  }
  void operator()(const char* name, int64_t& value) {
    if (const json* field = Required(name)) Integer(name, *field, value);
  }
  void operator()(const char* name, int& value) {
    int64_t wide = value;
    (*this)(name, wide);
    if (wide < std::numeric_limits<int>::min() ||
        wide > std::numeric_limits<int>::max()) {
      return IllTyped(name, "a 32-bit integer");
    }
    value = static_cast<int>(wide);
  }
  void operator()(const char* name, double& value) {
    if (const json* field = Required(name)) Number(name, *field, value);
  }
  void operator()(const char* name, std::optional<int64_t>& value) {
    auto field = in_.find(name);
    if (field == in_.end()) return;
    Integer(name, *field, value.emplace());
  }
  void operator()(const char* name, std::optional<double>& value) {
    auto field = in_.find(name);
    if (field == in_.end()) return;
    Number(name, *field, value.emplace());
  }
  void operator()(const char* name, MemoryCounters& value) {
    const json* field = Required(name);
    if (field == nullptr) return;
    if (!field->is_object()) return IllTyped(name, "an object");
    Reader nested(*field, absl::StrCat(where_, ".", name));
    Fields(nested, value, &value);
    status_ = nested.status();
  }
  void operator()(const char* name, Metrics& value) {
    const json* field = Required(name);
    if (field == nullptr) return;
    if (!field->is_object()) return IllTyped(name, "an object");
    value.clear();
    for (const auto& [metric, number] : field->items()) {
      Number(metric.c_str(), number, value.emplace_back(metric, 0).second);
    }
  }
  void operator()(const char* name, Counts& value) {
    const auto field = in_.find(name);
    if (field == in_.end()) return;
    if (!field->is_object()) return IllTyped(name, "an object");
    value.clear();
    for (const auto& [key, number] : field->items()) {
      Integer(key.c_str(), number, value[key]);
    }
  }
  void operator()(const char* name, std::vector<std::string>& value) {
    const json* field = Required(name);
    if (field == nullptr) return;
    if (!field->is_array()) return IllTyped(name, "a list of strings");
    value.clear();
    for (const json& text : *field) {
      if (!text.is_string()) return IllTyped(name, "a list of strings");
      value.push_back(text.get<std::string>());
    }
  }
  template <typename T>
  void Optional(const char* name, T& value) {
    if (in_.contains(name)) (*this)(name, value);
  }
  template <typename E>
  requires std::is_enum_v<E>
  void operator()(const char* name, E& value) {
    std::string text;
    (*this)(name, text);
    if (!status_.ok()) return;
    for (const auto& entry : NamesOf(value)) {
      if (text == entry.name) {
        value = entry.value;
        return;
      }
    }
    IllTyped(name, "a known name");
  }

 private:
  const json* Required(const char* name) {
    if (!status_.ok()) return nullptr;
    auto field = in_.find(name);
    if (field != in_.end()) return &*field;
    status_ = absl::InvalidArgumentError(
        absl::StrCat(where_, ": field '", name, "' is missing"));
    return nullptr;
  }
  void Integer(const char* name, const json& field, int64_t& value) {
    const bool fits = field.is_number_integer() &&
                      !(field.is_number_unsigned() &&
                        field.get<uint64_t>() >
                            uint64_t{std::numeric_limits<int64_t>::max()});
    if (!fits) return IllTyped(name, "a 64-bit integer");
    value = field.get<int64_t>();
  }
  void Number(const char* name, const json& field, double& value) {
    if (field.is_null()) {
      value = std::numeric_limits<double>::quiet_NaN();
    } else if (field.is_number()) {
      value = field.get<double>();
    } else {
      IllTyped(name, "a number or null");
    }
  }
  void IllTyped(const char* name, const char* expected) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(
        absl::StrCat(where_, ": field '", name, "' must be ", expected));
  }

  const json& in_;
  const std::string where_;
  absl::Status status_;
};

template <typename Variant>
std::string EncodeAny(const Variant& message) {
  return std::visit(
      [](const auto& m) {
        json object = {{"type", TypeOf(&m)}};
        Writer writer(object);
        Fields(writer, m, &m);
        return object.dump(-1, ' ', false, json::error_handler_t::replace);
      },
      message);
}

template <typename T>
absl::Status ReadInto(const json& object, T& message) {
  Reader reader(object, TypeOf(&message));
  Fields(reader, message, &message);
  return reader.status();
}

// Tries the alternatives of Variant from `I` on for one of type `type`.
template <typename Variant, size_t I = 0>
absl::StatusOr<Variant> ReadByType(const std::string& type,
                                   const json& object) {
  if constexpr (I == std::variant_size_v<Variant>) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown message type '", type.substr(0, 80), "'"));
  } else {
    std::variant_alternative_t<I, Variant> message;
    if (type != TypeOf(&message)) {
      return ReadByType<Variant, I + 1>(type, object);
    }
    absl::Status read = ReadInto(object, message);
    if (!read.ok()) return read;
    return Variant(std::move(message));
  }
}

template <typename Variant>
absl::StatusOr<Variant> DecodeAny(std::string_view line) {
  const json object = base::ParseTree<json>(line);
  if (object.is_discarded()) {
    return absl::InvalidArgumentError("the line is not JSON");
  }
  if (!object.is_object()) {
    return absl::InvalidArgumentError("the line is not a JSON object");
  }
  auto type = object.find("type");
  if (type == object.end() || !type->is_string()) {
    return absl::InvalidArgumentError("field 'type' must be a string");
  }
  return ReadByType<Variant>(type->get<std::string>(), object);
}

}  // namespace

std::string Encode(const FromWorker& message) { return EncodeAny(message); }
std::string Encode(const ToWorker& message) { return EncodeAny(message); }

absl::StatusOr<FromWorker> DecodeFromWorker(std::string_view line) {
  return DecodeAny<FromWorker>(line);
}
absl::StatusOr<ToWorker> DecodeToWorker(std::string_view line) {
  return DecodeAny<ToWorker>(line);
}

}  // namespace mpsd::wire
