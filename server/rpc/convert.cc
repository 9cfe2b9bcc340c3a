// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/convert.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/report/report.h"
#include "core/report/runbook.h"
#include "server/rpc/check.h"

namespace mpsd::rpc {
namespace {

// A message travels as a header, percent-encoded: a byte that is not printable
// ASCII takes three. gRPC peers refuse headers of more than 8 KiB in all.
constexpr size_t kMaxEncoded = 6144;

std::string CutToFit(const std::string& message) {
  size_t encoded = 0;
  for (size_t i = 0; i < message.size(); ++i) {
    const char c = message[i];
    encoded += c >= ' ' && c <= '~' && c != '%' ? 1 : 3;
    if (encoded > kMaxEncoded) return message.substr(0, i) + " …";
  }
  return message;
}

}  // namespace

std::string ValidUtf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const size_t length = base::CharacterLength(text);
    valid.append(length > 0 ? text.substr(0, length) : "\xef\xbf\xbd");
    text.remove_prefix(length > 0 ? length : 1);
  }
  return valid;
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  // The cut comes first, because it may fall within a character, which
  // ValidUtf8 then replaces.
  const std::string message = CutToFit(std::string(status.message()));
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      ValidUtf8(message));
}

namespace {

using google::protobuf::Message;
using jobs::EventFields;
using Field = google::protobuf::FieldDescriptor;

void FillBody(const jobs::StateChanged& body, v1::JobEvent& out) {
  out.mutable_state()->set_state(ToProto(body.state));
  out.mutable_state()->set_message(ValidUtf8(body.message));
}
void FillBody(const jobs::Progress& body, v1::JobEvent& out) {
  ToProto(body, *out.mutable_progress());
}
void FillBody(const jobs::Evaluated& body, v1::JobEvent& out) {
  ToProto(body, *out.mutable_evaluated());
}
void FillBody(const jobs::Checkpoint& body, v1::JobEvent& out) {
  ToProto(body, *out.mutable_checkpoint());
}
void FillBody(const report::Sampled& body, v1::JobEvent& out) {
  out.mutable_sampled()->set_step(body.step);
  for (const std::string& text : body.completions) {
    out.mutable_sampled()->add_completions(ValidUtf8(text));
  }
}
void FillBody(const jobs::Note& body, v1::JobEvent& out) {
  if (body.is_warning) {
    out.set_warning(ValidUtf8(body.text));
  } else {
    out.set_note(ValidUtf8(body.text));
  }
}

// Visits a report and sets the message's fields of the same names; the contract
// test `report` checks that each has one.
class MessageWriter {
 public:
  explicit MessageWriter(Message& out)
      : out_(out), set_(*out.GetReflection()) {}

  void operator()(const char* name, bool value) {
    if (const Field* field = Find(name)) set_.SetBool(&out_, field, value);
  }
  void operator()(const char* name, int64_t value) {
    if (const Field* field = Find(name)) set_.SetInt64(&out_, field, value);
  }
  void operator()(const char* name, double value) {
    if (const Field* field = Find(name)) set_.SetDouble(&out_, field, value);
  }
  void operator()(const char* name, const std::string& value) {
    if (const Field* field = Find(name)) {
      set_.SetString(&out_, field, ValidUtf8(value));
    }
  }
  template <typename T>
  void operator()(const char* name, const std::optional<T>& value) {
    if (value.has_value()) (*this)(name, *value);
  }
  void operator()(const char* name, const report::MemoryCounters& value) {
    const Field* field = Find(name);
    if (field == nullptr) return;
    MessageWriter nested(*set_.MutableMessage(&out_, field));
    Fields(nested, value, &value);
  }
  void operator()(const char* name, const report::Metrics& value) {
    for (const auto& [key, number] : value) AddEntry(name, key, number);
  }
  void operator()(const char* name, const report::Counts& value) {
    for (const auto& [key, number] : value) AddEntry(name, key, number);
  }

 private:
  const Field* Find(const char* name) const {
    return out_.GetDescriptor()->FindFieldByName(name);
  }
  // Fills in a map, whose entries are messages with "key" and "value".
  template <typename Number>
  void AddEntry(const char* name, const std::string& key, Number number) {
    const Field* field = Find(name);
    if (field == nullptr) return;
    MessageWriter entry(*set_.AddMessage(&out_, field));
    entry("key", key);
    entry("value", number);
  }

  Message& out_;
  const google::protobuf::Reflection& set_;
};

void FillOutcome(const jobs::Job& job, v1::Job& out) {
  for (const auto& [name, value] : job.metrics) {
    (*out.mutable_metrics())[ValidUtf8(name)] = value;
  }
  if (job.best_evaluation) {
    ToProto(*job.best_evaluation, *out.mutable_best_evaluation());
  }
  out.set_confusion_matrix_json(ValidUtf8(job.confusion_matrix));
  if (job.output_path.empty()) return;
  out.set_output_path(ValidUtf8(job.output_path));
  // The numbers are the same in both.
  out.set_output_kind(static_cast<v1::OutputKind>(job.output_kind));
  if (job.output_kind == jobs::OutputKind::kAdapter) {
    out.set_adapter_path(out.output_path());
  }
}

}  // namespace

void ToProto(absl::Time time, google::protobuf::Timestamp& out) {
  const int64_t seconds = absl::ToUnixSeconds(time);
  out.set_seconds(seconds);
  out.set_nanos(static_cast<int32_t>(
      absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
}

absl::Time FromProto(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) +
         absl::Nanoseconds(time.nanos());
}

// States and kinds have the same numbers in both enums; a test compares them.
v1::JobState ToProto(jobs::State state) {
  return static_cast<v1::JobState>(state);
}

v1::JobKind ToProto(jobs::JobKind kind) {
  return static_cast<v1::JobKind>(kind);
}

std::optional<jobs::JobKind> FromProto(v1::JobKind kind) {
  if (kind == v1::JOB_KIND_UNSPECIFIED) return jobs::JobKind::kTraining;
  return report::Numbered(jobs::kJobKinds, kind);
}

std::optional<jobs::State> FromProto(v1::JobState state) {
  return report::Numbered(jobs::kStates, state);
}

void ToProto(const jobs::MemoryCounters& memory, v1::DeviceMemory& out) {
  MessageWriter writer(out);
  Fields(writer, memory, &memory);
}

void ToProto(const jobs::Progress& progress, v1::Progress& out) {
  MessageWriter writer(out);
  EventFields(writer, progress, &progress);
}

void ToProto(const jobs::Evaluated& evaluated, v1::Evaluated& out) {
  MessageWriter writer(out);
  EventFields(writer, evaluated, &evaluated);
}

void ToProto(const jobs::Checkpoint& checkpoint, v1::Checkpoint& out) {
  out.set_step(checkpoint.step);
  out.set_path(ValidUtf8(checkpoint.path));
  out.set_size_bytes(checkpoint.bytes);
  ToProto(checkpoint.create_time, *out.mutable_create_time());
}

void ToProto(const jobs::Event& event, v1::JobEvent& out) {
  out.set_sequence(event.sequence);
  ToProto(event.time, *out.mutable_time());
  std::visit([&](const auto& body) { FillBody(body, out); }, event.body);
}

void ToProto(const jobs::Job& job, v1::Job& out) {
  out.set_id(job.id);
  out.set_kind(ToProto(job.kind));
  out.set_name(ValidUtf8(job.name));
  out.set_state(ToProto(job.state));
  out.set_cancel_requested(job.cancel_requested);
  out.set_owner(ValidUtf8(job.owner));
  for (const auto& [key, value] : job.labels) {
    (*out.mutable_labels())[ValidUtf8(key)] = ValidUtf8(value);
  }
  for (const std::string& tag : job.tags) out.add_tags(ValidUtf8(tag));
  out.set_priority(job.priority);
  ToProto(job.create_time, *out.mutable_create_time());
  if (job.start_time) ToProto(*job.start_time, *out.mutable_start_time());
  if (job.end_time) ToProto(*job.end_time, *out.mutable_end_time());
  if (job.not_before) ToProto(*job.not_before, *out.mutable_not_before());
  out.set_attempt(job.attempt);
  out.set_message(ValidUtf8(job.message));
  if (job.exit_reason) {
    out.set_exit_reason(std::string(jobs::Name(*job.exit_reason)));
  }
  if (job.progress) ToProto(*job.progress, *out.mutable_progress());
  if (job.eval_loss_before) out.set_eval_loss_before(*job.eval_loss_before);
  if (job.eval_loss_after) out.set_eval_loss_after(*job.eval_loss_after);
  if (job.train_loss) out.set_train_loss(*job.train_loss);
  for (const std::string& warning : job.warnings) {
    out.add_warnings(ValidUtf8(warning));
  }
  out.set_interruptions(job.interruptions);
  out.set_failures(job.failures);
  out.set_estimated_memory_bytes(job.memory_bytes);
  out.set_device_seconds(absl::ToDoubleSeconds(job.device_time));
  out.set_held(job.held);
  for (const std::string& id : job.after) out.add_after(ValidUtf8(id));
  out.set_pinned(job.pinned);
  out.set_stored_bytes(job.stored_bytes);
  out.set_model(ValidUtf8(job.model));
  out.set_checkpoint_step(job.fresh ? 0 : job.durable_step);
  out.set_spec_json(ValidUtf8(job.spec_json));
  FillOutcome(job, out);
}

jobs::SubmitRequest FromProto(v1::SubmitRequest request) {
  jobs::SubmitRequest out;
  out.kind = KindOf(request).value_or(jobs::JobKind::kTraining);
  out.study_json = EncodeStudy(request.study());
  out.spec_json = request.spec_json();
  out.inputs.reserve(request.inputs().size());
  for (v1::InputFile& input : *request.mutable_inputs()) {
    out.inputs.push_back(
        {std::move(*input.mutable_path()), std::move(*input.mutable_sha256())});
  }
  out.priority = request.priority();
  out.owner = request.owner();
  out.labels.insert(request.labels().begin(), request.labels().end());
  out.idempotency_key = request.idempotency_key();
  out.anyway = request.anyway();
  out.after.assign(request.after().begin(), request.after().end());
  out.held = request.held();
  if (request.has_round_trip_seconds()) {
    out.round_trip_seconds = request.round_trip_seconds();
  }
  return out;
}

void ToProto(const jobs::SubmitRequest& request, v1::SubmitRequest& out) {
  out.set_spec_json(ValidUtf8(request.spec_json));
  for (const jobs::InputFile& input : request.inputs) {
    v1::InputFile& file = *out.add_inputs();
    file.set_path(ValidUtf8(input.path));
    file.set_sha256(input.sha256);
  }
  out.set_priority(request.priority);
  for (const auto& [key, value] : request.labels) {
    (*out.mutable_labels())[ValidUtf8(key)] = ValidUtf8(value);
  }
  out.set_anyway(request.anyway);
  out.set_held(request.held);
  out.set_kind(ToProto(request.kind));
  if (jobs::IsStudy(request.kind)) {
    DecodeStudy(request.kind, request.study_json, *out.mutable_study());
  }
  for (const std::string& id : request.after) out.add_after(ValidUtf8(id));
  // The round trip is that of the client that submitted the job then.
}

namespace {

// The members of an enum of the host's or the pause's in the API, whose numbers
// begin after UNSPECIFIED; a test compares them.
template <typename Out, typename In>
Out NumberedFromOne(In value) {
  return static_cast<Out>(static_cast<int>(value) + 1);
}

}  // namespace

void ToProto(const host::Reading& r, v1::HostReading& out) {
  if (r.power_source) {
    out.set_on_battery(*r.power_source == host::PowerSource::kBattery);
  }
  if (r.battery_ratio) out.set_battery_ratio(*r.battery_ratio);
  if (r.low_power_mode) out.set_low_power_mode(*r.low_power_mode);
  if (r.thermal) {
    out.set_thermal_level(NumberedFromOne<v1::ThermalLevel>(*r.thermal));
  }
  if (r.memory_pressure) {
    out.set_memory_pressure(
        NumberedFromOne<v1::MemoryPressure>(*r.memory_pressure));
  }
  if (r.swap_used_bytes) out.set_swap_used_bytes(*r.swap_used_bytes);
  if (r.gpu_utilization_ratio) {
    out.set_gpu_utilization_ratio(*r.gpu_utilization_ratio);
  }
  if (r.gpu_resets) out.set_gpu_resets(*r.gpu_resets);
  if (r.wired_limit_bytes) out.set_wired_limit_bytes(*r.wired_limit_bytes);
  if (r.user_idle_seconds) out.set_user_idle_seconds(*r.user_idle_seconds);
}

void ToProto(const jobs::Pause& pause, v1::Pause& out) {
  for (jobs::PauseReason reason : pause.reasons) {
    out.add_reasons(NumberedFromOne<v1::PauseReason>(reason));
  }
  out.set_held(pause.held);
  if (pause.since) ToProto(*pause.since, *out.mutable_since());
}

// Copies what is public instead of clearing what is private, so that a field
// added later is private by default.
void KeepPublicPart(v1::Job& job) {
  v1::Job shown;
  shown.set_id(std::move(*job.mutable_id()));
  shown.set_state(job.state());
  shown.set_cancel_requested(job.cancel_requested());
  shown.set_owner(std::move(*job.mutable_owner()));
  shown.set_priority(job.priority());
  shown.set_kind(job.kind());
  shown.set_attempt(job.attempt());
  shown.set_device_seconds(job.device_seconds());
  if (job.has_create_time()) *shown.mutable_create_time() = job.create_time();
  if (job.has_start_time()) *shown.mutable_start_time() = job.start_time();
  if (job.has_end_time()) *shown.mutable_end_time() = job.end_time();
  if (job.has_not_before()) *shown.mutable_not_before() = job.not_before();
  if (job.has_queue_position()) {
    shown.set_queue_position(job.queue_position());
  }
  if (job.has_pause()) *shown.mutable_pause() = job.pause();
  if (job.has_progress()) {
    v1::Progress& progress = *shown.mutable_progress();
    progress.set_step(job.progress().step());
    progress.set_total_steps(job.progress().total_steps());
    progress.set_eta_seconds(job.progress().eta_seconds());
  }
  job.Swap(&shown);
}

namespace {

// The member of the oneof for a study of `kind`, in Study and in StudyResult:
// the kinds have the members' names. Null for training.
const Field* MemberOf(const Message& message, jobs::JobKind kind) {
  return message.GetDescriptor()->FindFieldByName(
      std::string(jobs::Name(kind)));
}

std::optional<jobs::JobKind> KindOfStudy(const v1::Study& study) {
  for (const jobs::JobKind kind : jobs::kAllJobKinds) {
    const Field* member = MemberOf(study, kind);
    if (member != nullptr && study.GetReflection()->HasField(study, member)) {
      return kind;
    }
  }
  return std::nullopt;
}

google::protobuf::util::JsonParseOptions Lenient() {
  google::protobuf::util::JsonParseOptions options;
  // Fields of a newer worker.
  options.ignore_unknown_fields = true;
  return options;
}

}  // namespace

std::optional<jobs::JobKind> KindOf(const v1::SubmitRequest& request) {
  const std::optional<jobs::JobKind> study = KindOfStudy(request.study());
  if (request.kind() == v1::JOB_KIND_UNSPECIFIED) {
    if (study) return study;
    // A study of a newer client.
    if (request.has_study()) return std::nullopt;
    return jobs::JobKind::kTraining;
  }
  const std::optional<jobs::JobKind> kind =
      report::Numbered(jobs::kJobKinds, request.kind());
  const bool agree =
      kind && (jobs::IsStudy(*kind) ? study == kind : !request.has_study());
  return agree ? kind : std::nullopt;
}

absl::Status CheckStudy(const v1::Study& study) {
  const std::optional<jobs::JobKind> kind = KindOfStudy(study);
  if (!kind) return absl::OkStatus();
  const std::string json = EncodeStudy(study);
  RETURN_IF_ERROR(CheckLength("study", json, limits::kStudyBytes));
  const std::string name(jobs::Name(*kind));
  absl::Status checked =
      runbook::CheckStudyOptions(name, base::ParseTree<nlohmann::json>(json));
  if (checked.ok()) return checked;
  return absl::InvalidArgumentError(
      absl::StrCat("study.", name, ".", checked.message()));
}

std::optional<std::string> ProtoJson(const Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  if (!MessageToJsonString(message, &json, options).ok()) return std::nullopt;
  return json;
}

std::string EncodeStudy(const v1::Study& study) {
  const std::optional<jobs::JobKind> kind = KindOfStudy(study);
  if (!kind) return "";
  return ProtoJson(
             study.GetReflection()->GetMessage(study, MemberOf(study, *kind)))
      .value_or("");
}

void DecodeStudy(jobs::JobKind kind, const std::string& json,
                 v1::Study& study) {
  const Field* member = MemberOf(study, kind);
  if (member == nullptr) return;
  Message* message = study.GetReflection()->MutableMessage(&study, member);
  if (!JsonStringToMessage(json, message, Lenient()).ok()) message->Clear();
}

absl::Status DecodeStudyResult(jobs::JobKind kind, const std::string& json,
                               v1::StudyResult& result) {
  result.Clear();
  const Field* member = MemberOf(result, kind);
  if (member == nullptr) return absl::FailedPreconditionError("no study");
  const auto parsed = JsonStringToMessage(json, &result, Lenient());
  if (parsed.ok() && result.GetReflection()->HasField(result, member)) {
    return absl::OkStatus();
  }
  result.Clear();
  return absl::DataLossError(absl::StrCat(
      "result.json is not the result of a ", std::string(jobs::Name(kind)),
      ": ", parsed.ok() ? "it has none" : base::Printable(parsed.ToString())));
}

}  // namespace mpsd::rpc
