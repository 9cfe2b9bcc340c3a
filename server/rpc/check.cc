// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/check.h"

#include <cstddef>
#include <set>

#include "absl/strings/str_cat.h"
#include "server/jobs/blob_store.h"

namespace mpsd::rpc {
namespace {

constexpr size_t kMaxId = 64;
constexpr size_t kMaxSpec = 1 << 20;
constexpr size_t kMaxKey = 128;
constexpr size_t kMaxOwner = 256;
constexpr size_t kMaxPath = 4096;
constexpr int kMaxInputs = 50'000;
constexpr size_t kMaxLabels = 64;
constexpr size_t kMaxLabelKey = 128;
constexpr size_t kMaxLabelValue = 256;

absl::Status CheckLength(const std::string& field, const std::string& value,
                         size_t max) {
  if (value.size() <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, ": has ", value.size(), " bytes, at most ", max, " are allowed"));
}

absl::Status CheckNotEmpty(const std::string& field, const std::string& value) {
  if (!value.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": must not be empty"));
}

absl::Status CheckCount(const std::string& field, size_t count, size_t max) {
  if (count <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, ": has ", count, " entries, at most ", max, " are allowed"));
}

absl::Status CheckLabels(const v1::SubmitRequest& request) {
  absl::Status status =
      CheckCount("labels", request.labels().size(), kMaxLabels);
  for (const auto& [key, value] : request.labels()) {
    if (status.ok()) status = CheckNotEmpty("labels: key", key);
    if (status.ok()) status = CheckLength("labels: key", key, kMaxLabelKey);
    if (status.ok()) {
      status =
          CheckLength(absl::StrCat("labels[", key, "]"), value, kMaxLabelValue);
    }
  }
  return status;
}

absl::Status CheckInputs(const v1::SubmitRequest& request) {
  absl::Status status =
      CheckCount("inputs", request.inputs().size(), kMaxInputs);
  std::set<std::string> paths;
  for (int i = 0; status.ok() && i < request.inputs().size(); ++i) {
    const v1::InputFile& input = request.inputs(i);
    const std::string field = absl::StrCat("inputs[", i, "]");
    status = CheckNotEmpty(field + ".path", input.path());
    if (status.ok()) {
      status = CheckLength(field + ".path", input.path(), kMaxPath);
    }
    if (status.ok()) status = CheckSha256(field + ".sha256", input.sha256());
    if (status.ok() && !paths.insert(input.path()).second) {
      status = absl::InvalidArgumentError(
          absl::StrCat(field, ".path: '", input.path(), "' is listed twice"));
    }
  }
  return status;
}

}  // namespace

absl::Status CheckId(const std::string& field, const std::string& id) {
  absl::Status status = CheckNotEmpty(field, id);
  return status.ok() ? CheckLength(field, id, kMaxId) : status;
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
  absl::Status status = CheckNotEmpty("spec_json", request.spec_json());
  if (status.ok()) {
    status = CheckLength("spec_json", request.spec_json(), kMaxSpec);
  }
  if (status.ok()) status = CheckInputs(request);
  if (status.ok()) status = CheckLength("owner", request.owner(), kMaxOwner);
  if (status.ok()) status = CheckLabels(request);
  if (status.ok()) {
    status = CheckLength("idempotency_key", request.idempotency_key(), kMaxKey);
  }
  return status;
}

}  // namespace mpsd::rpc
