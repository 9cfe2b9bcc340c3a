// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/convert.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>
#include <variant>

#include "absl/time/time.h"
#include "core/report/report.h"
#include "server/jobs/job.h"
#include "server/rpc/status.h"
#include "server/rpc/study_codec.h"

namespace mpsd::rpc {
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
void FillBody(const jobs::Note& body, v1::JobEvent& out) {
  if (body.is_warning) {
    out.set_warning(ValidUtf8(body.text));
  } else {
    out.set_note(ValidUtf8(body.text));
  }
}

void FillMetrics(const jobs::Metrics& metrics,
                 google::protobuf::Map<std::string, double>& out) {
  for (const auto& [name, value] : metrics) out[ValidUtf8(name)] = value;
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
  FillMetrics(job.metrics, *out.mutable_metrics());
  if (job.best_evaluation) {
    ToProto(*job.best_evaluation, *out.mutable_best_evaluation());
  }
  out.set_confusion_matrix_json(ValidUtf8(job.confusion_matrix));
  if (job.output_path.empty()) return;
  const std::string path = ValidUtf8(job.output_path);
  const bool adapter = job.output_kind == jobs::OutputKind::kAdapter;
  out.set_output_path(path);
  // The numbers are the same in both.
  out.set_output_kind(static_cast<v1::OutputKind>(job.output_kind));
  if (adapter) out.set_adapter_path(path);
}

}  // namespace

void ToProto(absl::Time time, google::protobuf::Timestamp& out) {
  const int64_t seconds = absl::ToUnixSeconds(time);
  out.set_seconds(seconds);
  out.set_nanos(static_cast<int32_t>(
      absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
}

v1::JobState ToProto(jobs::State state) {
  switch (state) {
    case jobs::State::kQueued:
      return v1::JOB_STATE_QUEUED;
    case jobs::State::kRunning:
      return v1::JOB_STATE_RUNNING;
    case jobs::State::kSucceeded:
      return v1::JOB_STATE_SUCCEEDED;
    case jobs::State::kFailed:
      return v1::JOB_STATE_FAILED;
    case jobs::State::kCancelled:
      return v1::JOB_STATE_CANCELLED;
  }
  return v1::JOB_STATE_UNSPECIFIED;
}

v1::JobKind ToProto(jobs::JobKind kind) {
  // Both enums have the same numbers; a test compares the enums.
  return static_cast<v1::JobKind>(kind);
}

std::optional<jobs::JobKind> FromProto(v1::JobKind kind) {
  if (kind == v1::JOB_KIND_UNSPECIFIED) return jobs::JobKind::kTraining;
  return report::Numbered(jobs::kJobKinds, kind);
}

std::optional<jobs::State> FromProto(v1::JobState state) {
  for (jobs::State known : jobs::kAllStates) {
    if (ToProto(known) == state) return known;
  }
  return std::nullopt;
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
  out.set_spec_json(ValidUtf8(job.spec_json));
  FillOutcome(job, out);
}

jobs::SubmitRequest FromProto(const v1::SubmitRequest& request) {
  jobs::SubmitRequest out;
  out.kind = KindOf(request).value_or(jobs::JobKind::kTraining);
  out.study_json = EncodeStudy(request.study());
  out.spec_json = request.spec_json();
  for (const v1::InputFile& input : request.inputs()) {
    out.inputs.push_back({input.path(), input.sha256()});
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

}  // namespace mpsd::rpc
