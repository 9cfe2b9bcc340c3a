// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/check.h"

#include <algorithm>
#include <climits>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "server/rpc/convert.h"
#include "server/rpc/gate.h"
#include "server/store/blob_store.h"

namespace mpsd::rpc {
namespace {

using JobLabels = google::protobuf::Map<std::string, std::string>;

absl::Status CheckNotEmpty(const std::string& field, const std::string& value) {
  if (!value.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": must not be empty"));
}

absl::Status CheckJobLabels(const JobLabels& labels, size_t max) {
  RETURN_IF_ERROR(CheckCount("labels", labels.size(), max));
  for (const auto& [key, value] : labels) {
    RETURN_IF_ERROR(CheckNotEmpty("labels: key", key));
    RETURN_IF_ERROR(CheckText("labels: key", key, limits::kJobLabelKeyBytes));
    RETURN_IF_ERROR(CheckText(absl::StrCat("labels[", key, "]"), value,
                              limits::kJobLabelValueBytes));
  }
  return absl::OkStatus();
}

// Checks that each part of the path is a valid file name.
absl::Status CheckParts(const std::string& field, std::string_view path) {
  if (path.find('\0') != std::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": has a NUL byte, which no file's name has"));
  }
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    if (end > NAME_MAX) {
      return absl::InvalidArgumentError(absl::StrCat(
          field, ": has a part of ", end, " bytes between slashes, at most ",
          NAME_MAX, " are a file's name"));
    }
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return absl::OkStatus();
}

absl::Status CheckPath(const std::string& field, const std::string& path) {
  RETURN_IF_ERROR(CheckNotEmpty(field, path));
  RETURN_IF_ERROR(CheckLength(field, path, limits::kPathBytes));
  RETURN_IF_ERROR(CheckParts(field, path));
  const size_t parts = 1 + std::count(path.begin(), path.end(), '/');
  if (parts <= limits::kPathParts) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": has ", parts, " parts between slashes, at most ",
                   limits::kPathParts, " are allowed"));
}

absl::Status CheckInputs(const v1::SubmitRequest& request) {
  RETURN_IF_ERROR(
      CheckCount("inputs", request.inputs().size(), limits::kInputs));
  std::set<std::string_view> paths;
  size_t bytes = 0;
  for (int i = 0; i < request.inputs().size(); ++i) {
    const v1::InputFile& input = request.inputs(i);
    const std::string field = absl::StrCat("inputs[", i, "]");
    RETURN_IF_ERROR(CheckPath(field + ".path", input.path()));
    RETURN_IF_ERROR(CheckSha256(field + ".sha256", input.sha256()));
    if (!paths.insert(input.path()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".path: '", base::Quotable(input.path()),
                       "' is listed twice"));
    }
    bytes += input.path().size();
  }
  if (bytes <= limits::kPathsBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("inputs: their paths have ", bytes,
                   " bytes together, at "
                   "most ",
                   limits::kPathsBytes,
                   " are allowed; name them from a folder nearer to them"));
}

absl::Status CheckAfter(const v1::SubmitRequest& request) {
  RETURN_IF_ERROR(CheckCount("after", request.after().size(), limits::kAfter));
  for (int i = 0; i < request.after().size(); ++i) {
    RETURN_IF_ERROR(CheckId(absl::StrCat("after[", i, "]"), request.after(i)));
  }
  return absl::OkStatus();
}

// The client's measurement for the record: any plausible number.
absl::Status CheckRoundTrip(const v1::SubmitRequest& request) {
  constexpr double kMost = 600;  // seconds
  const double seconds = request.round_trip_seconds();
  if (seconds >= 0 && seconds <= kMost) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("round_trip_seconds: must be a number from 0 to ", kMost,
                   ", is ", seconds));
}

absl::Status CheckKind(const v1::SubmitRequest& request) {
  if (KindOf(request)) return absl::OkStatus();
  if (!FromProto(request.kind())) {
    return absl::InvalidArgumentError(
        absl::StrCat("kind: this mpsd has no kind of job with the number ",
                     static_cast<int>(request.kind()), "; a newer one may"));
  }
  return absl::InvalidArgumentError(
      "study: this mpsd does not know the study (a newer one may), or `kind` "
      "names another one: leave `kind` out");
}

// Of a whole request: those of the largest submission, and some more.
constexpr int kFields = 4 * limits::kInputs;

// Whether a message has at most `left` fields, of which it takes away its own:
// a field of one byte takes fifty as an empty message or string. A message that
// is cut off has too many.
bool HasFewFields(const google::protobuf::Descriptor& type,
                  google::protobuf::io::CodedInputStream& in, int& left) {
  using google::protobuf::internal::WireFormatLite;
  while (const uint32_t tag = in.ReadTag()) {
    if (--left < 0) return false;
    const auto wire_type = WireFormatLite::GetTagWireType(tag);
    // The fields of a group are counted as if they were the message's own.
    if (wire_type == WireFormatLite::WIRETYPE_START_GROUP ||
        wire_type == WireFormatLite::WIRETYPE_END_GROUP) {
      continue;
    }
    const auto* field =
        type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    if (wire_type != WireFormatLite::WIRETYPE_LENGTH_DELIMITED ||
        field == nullptr || field->message_type() == nullptr) {
      if (!WireFormatLite::SkipField(&in, tag)) return false;
      continue;
    }
    int size = 0;
    if (!in.ReadVarintSizeAsInt(&size)) return false;
    const auto [limit, depth] = in.IncrementRecursionDepthAndPushLimit(size);
    if (depth < 0 || !HasFewFields(*field->message_type(), in, left) ||
        !in.DecrementRecursionDepthAndPopLimit(limit)) {
      return false;
    }
  }
  return in.ConsumedEntireMessage();
}

}  // namespace

absl::Status ParseRequest(grpc::ByteBuffer& bytes, size_t most_bytes,
                          google::protobuf::Message& message) {
  const std::string name(message.GetDescriptor()->full_name());
  grpc::ByteBuffer taken;
  taken.Swap(&bytes);
  if (taken.Length() > most_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("request: has ", taken.Length(), " bytes, at most ",
                     most_bytes, " are allowed"));
  }
  if (taken.Length() > kRequestBytes) {
    grpc::ProtoBufferReader reader(&taken);
    google::protobuf::io::CodedInputStream in(&reader);
    int left = kFields;
    if (!HasFewFields(*message.GetDescriptor(), in, left)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "request: is not a ", name, " of at most ", kFields, " fields"));
    }
  }
  grpc::ProtoBufferReader reader(&taken);
  if (!reader.status().ok() || !message.ParseFromZeroCopyStream(&reader)) {
    return absl::InvalidArgumentError(absl::StrCat("request: is not a ", name));
  }
  message.DiscardUnknownFields();
  return absl::OkStatus();
}

absl::Status CheckLength(const std::string& field, const std::string& value,
                         size_t max) {
  if (value.size() <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, ": has ", value.size(), " bytes, at most ", max, " are allowed"));
}

absl::Status CheckText(const std::string& field, const std::string& value,
                       size_t max) {
  RETURN_IF_ERROR(CheckLength(field, value, max));
  if (!value.empty() && base::IsBlank(value)) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": has only spaces or invisible characters"));
  }
  if (base::IsPrintable(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": '", base::Quotable(value),
                   "' has a line break, another control character or a mark "
                   "that turns the direction of writing; leave it out"));
}

absl::Status CheckCount(const std::string& field, size_t count, size_t max) {
  if (count <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, ": has ", count, " entries, at most ", max, " are allowed"));
}

absl::Status CheckPageSize(const std::string& field, int32_t size,
                           int32_t max) {
  if (size >= 0 && size <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": must be 0 to ", max, ", is ", size));
}

absl::Status CheckId(const std::string& field, const std::string& id) {
  RETURN_IF_ERROR(CheckNotEmpty(field, id));
  return CheckLength(field, id, limits::kIdBytes);
}

absl::Status CheckSha256(const std::string& field, const std::string& sha256) {
  if (jobs::IsSha256(sha256)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": must be 64 lower-case hexadecimal digits"));
}

absl::Status CheckNotNegative(const std::string& field, int64_t value) {
  if (value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": must not be negative, is ", value));
}

absl::Status CheckSubmit(const v1::SubmitRequest& request) {
  RETURN_IF_ERROR(CheckNotEmpty("spec_json", request.spec_json()));
  RETURN_IF_ERROR(
      CheckLength("spec_json", request.spec_json(), limits::kSpecBytes));
  RETURN_IF_ERROR(CheckKind(request));
  RETURN_IF_ERROR(CheckStudy(request.study()));
  RETURN_IF_ERROR(CheckInputs(request));
  RETURN_IF_ERROR(CheckAfter(request));
  RETURN_IF_ERROR(CheckRoundTrip(request));
  RETURN_IF_ERROR(CheckText("owner", request.owner(), limits::kOwnerBytes));
  RETURN_IF_ERROR(CheckJobLabels(request.labels(), limits::kJobLabels));
  return CheckText("idempotency_key", request.idempotency_key(),
                   limits::kKeyBytes);
}

absl::Status CheckList(const v1::ListJobsRequest& request) {
  RETURN_IF_ERROR(
      CheckCount("states", request.states().size(), limits::kFilterStates));
  RETURN_IF_ERROR(CheckLength("owner", request.owner(), limits::kOwnerBytes));
  RETURN_IF_ERROR(CheckJobLabels(request.labels(), limits::kFilterLabels));
  RETURN_IF_ERROR(
      CheckCount("tags", request.tags().size(), limits::kFilterLabels));
  RETURN_IF_ERROR(
      CheckLength("page_token", request.page_token(), limits::kPageTokenBytes));
  RETURN_IF_ERROR(CheckText("text", request.text(), limits::kFilterTextBytes));
  return CheckLength("model", request.model(), limits::kPathBytes);
}

}  // namespace mpsd::rpc
