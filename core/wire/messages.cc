// SPDX-License-Identifier: Apache-2.0
#include "core/wire/messages.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/report/report_json.h"

namespace mpsd::wire {

// In JobKind's namespace, where the codec's argument-dependent lookup finds it.
static constexpr report::EnumName<JobKind> kJobKinds[] = {
    {JobKind::kTraining, "training"},
    {JobKind::kProbe, "probe"},
    {JobKind::kBatchSweep, "batch_sweep"},
    {JobKind::kDeviceComparison, "device_comparison"},
    {JobKind::kProfile, "profile"},
    {JobKind::kSmoke, "smoke"},
    {JobKind::kGenerate, "generate"}};
static constexpr const auto& NamesOf(JobKind) { return kJobKinds; }

namespace {

using report::Json;
using report::JsonReader;
using report::JsonWriter;

// The only field list of each message that is not a report, for both
// directions: `v` is a JsonWriter over a const message or a JsonReader over a
// mutable one.
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
  v.Optional("study", m.study);
  v.Optional("closed_roots", m.closed_roots);
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
void Fields(V& v, auto& m, const Heartbeat*) {
  v("stage", m.stage);
  v("fraction", m.fraction);
  v.Optional("device", m.device);
}
template <typename V>
void Fields(V& v, auto& m, const Warning*) {
  v("text", m.text);
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
constexpr const char* TypeOf(const Sampled*) { return "sampled"; }
constexpr const char* TypeOf(const Checkpointed*) { return "checkpointed"; }
constexpr const char* TypeOf(const Heartbeat*) { return "heartbeat"; }
constexpr const char* TypeOf(const Warning*) { return "warning"; }
constexpr const char* TypeOf(const Failed*) { return "failed"; }
constexpr const char* TypeOf(const Done*) { return "done"; }
constexpr const char* TypeOf(const Stopped*) { return "stopped"; }

template <typename Variant>
std::string EncodeAny(const Variant& message) {
  return std::visit(
      [](const auto& m) {
        Json object = {{"type", TypeOf(&m)}};
        JsonWriter writer(object);
        Fields(writer, m, &m);
        return report::Dump(object);
      },
      message);
}

template <typename T>
absl::Status ReadInto(const Json& object, T& message) {
  JsonReader reader(object, TypeOf(&message), JsonReader::Missing::kError);
  Fields(reader, message, &message);
  return reader.status();
}

// Decodes the alternative of Variant, from index `I` on, whose name is `type`.
template <typename Variant, size_t I = 0>
absl::StatusOr<Variant> ReadByType(const std::string& type,
                                   const Json& object) {
  if constexpr (I == std::variant_size_v<Variant>) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown message type '", type.substr(0, 80), "'"));
  } else {
    std::variant_alternative_t<I, Variant> message;
    if (type != TypeOf(&message)) {
      return ReadByType<Variant, I + 1>(type, object);
    }
    RETURN_IF_ERROR(ReadInto(object, message));
    return Variant(std::move(message));
  }
}

template <typename Variant>
absl::StatusOr<Variant> DecodeAny(std::string_view line) {
  const Json object = base::ParseTree<Json>(line);
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
