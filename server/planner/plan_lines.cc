// SPDX-License-Identifier: Apache-2.0
#include "server/planner/plan_lines.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "core/base/json_depth.h"
#include "core/base/printable.h"

namespace mpsd::planner {
namespace {

using Json = nlohmann::json;

// What a plan may fail by; any other code would tell the client of a fault that
// is not there.
constexpr absl::StatusCode kCodes[] = {
    absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound,
    absl::StatusCode::kFailedPrecondition, absl::StatusCode::kResourceExhausted,
    absl::StatusCode::kUnimplemented};

absl::Status Broken(const std::string& what) {
  return absl::InternalError(
      absl::StrCat("the process that plans (mpsd-worker --plan) ", what));
}

// Null where `object` has no such text.
const std::string* TextIn(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string()
             ? found->get_ptr<const std::string*>()
             : nullptr;
}

absl::Status ErrorOf(const Json& error) {
  const std::string* code = TextIn(error, "code");
  const std::string* message = TextIn(error, "message");
  if (code == nullptr || message == nullptr) {
    return Broken("told an error without a code and a message");
  }
  const std::string text = base::Printable(
      base::Shortened(*message, limits::kMessageBytes), base::Breaks::kKeep);
  for (const absl::StatusCode known : kCodes) {
    if (absl::StatusCodeToString(known) == *code) {
      return absl::Status(known, text);
    }
  }
  return absl::InternalError(text);
}

}  // namespace

absl::Status PlanLines::Take(std::string_view bytes) {
  bytes_ += bytes.size();
  if (broken_.ok() && bytes_ > kOutputBytes) {
    broken_ = Broken(absl::StrCat("said more than ", kOutputBytes, " bytes"));
  }
  while (broken_.ok() && !bytes.empty()) {
    const size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    if (line_.size() + part.size() > kLineBytes) {
      broken_ = Broken(
          absl::StrCat("said a line of more than ", kLineBytes, " bytes"));
      break;
    }
    line_.append(part);
    if (end == std::string_view::npos) break;
    bytes.remove_prefix(end + 1);
    broken_ = TakeLine(line_);
    line_.clear();
  }
  return broken_;
}

absl::Status PlanLines::TakeLine(std::string_view line) {
  if (done_) return Broken("went on after its plan");
  const Json json = base::ParseTree<Json>(line);
  if (!json.is_object()) {
    return Broken(absl::StrCat("said what is no JSON object: '",
                               base::Quotable(line), "'"));
  }
  if (const std::string* stage = TextIn(json, "stage")) {
    on_stage_(base::Printable(base::Shortened(*stage, limits::kStageBytes)));
    return absl::OkStatus();
  }
  if (const auto plan = json.find("plan");
      plan != json.end() && plan->is_object()) {
    done_ = true;
    result_ = plan->dump(-1, ' ', false, Json::error_handler_t::replace);
    return absl::OkStatus();
  }
  if (const auto error = json.find("error");
      error != json.end() && error->is_object()) {
    done_ = true;
    result_ = ErrorOf(*error);
    return absl::OkStatus();
  }
  return Broken(absl::StrCat("said neither a stage nor a plan: '",
                             base::Quotable(line), "'"));
}

absl::StatusOr<std::string> PlanLines::Result() const {
  if (!broken_.ok()) return broken_;
  if (!done_) return Broken("ended without a plan");
  return result_;
}

}  // namespace mpsd::planner
