// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/study_codec.h"

#include <google/protobuf/util/json_util.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "core/base/json_depth.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "core/report/study_options.h"

namespace mpsd::rpc {
namespace {

using google::protobuf::Message;

// The member of the oneof for a study of `kind`, in Study and in StudyResult:
// the kinds have the members' names. Null for training.
const google::protobuf::FieldDescriptor* MemberOf(const Message& message,
                                                  jobs::JobKind kind) {
  return message.GetDescriptor()->FindFieldByName(
      std::string(jobs::Name(kind)));
}

std::optional<jobs::JobKind> KindOfStudy(const v1::Study& study) {
  for (const jobs::JobKind kind : jobs::kAllJobKinds) {
    const auto* member = MemberOf(study, kind);
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
  if (json.size() > limits::kStudyBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("study: has ", json.size(), " bytes, at most ",
                     limits::kStudyBytes, " are allowed"));
  }
  const std::string name(jobs::Name(*kind));
  absl::Status checked =
      runbook::CheckStudyOptions(name, base::ParseTree<nlohmann::json>(json));
  if (checked.ok()) return checked;
  return absl::InvalidArgumentError(
      absl::StrCat("study.", name, ".", checked.message()));
}

std::string EncodeStudy(const v1::Study& study) {
  const std::optional<jobs::JobKind> kind = KindOfStudy(study);
  if (!kind) return "";
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  const Message& message =
      study.GetReflection()->GetMessage(study, MemberOf(study, *kind));
  if (!MessageToJsonString(message, &json, options).ok()) return "";
  return json;
}

void DecodeStudy(jobs::JobKind kind, const std::string& json,
                 v1::Study& study) {
  const auto* member = MemberOf(study, kind);
  if (member == nullptr) return;
  Message* message = study.GetReflection()->MutableMessage(&study, member);
  if (!JsonStringToMessage(json, message, Lenient()).ok()) message->Clear();
}

absl::Status DecodeStudyResult(jobs::JobKind kind, const std::string& json,
                               v1::StudyResult& result) {
  result.Clear();
  const auto* member = MemberOf(result, kind);
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
