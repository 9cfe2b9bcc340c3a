// SPDX-License-Identifier: Apache-2.0
#include "core/report/run_document.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mpsd::run_page {
namespace {

using Json = nlohmann::ordered_json;

std::string Dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// JSON texts are joined rather than parsed: there may be megabytes of them.
std::string RunText(const RunData& run) {
  const Json left_out = {{"steps", run.left_out.steps},
                         {"evaluations", run.left_out.evaluations},
                         {"events", run.left_out.events},
                         {"log_bytes", run.left_out.log_bytes}};
  return absl::StrCat(
      "{\"job\":", run.job, ",\n\"events\":[", absl::StrJoin(run.events, ",\n"),
      "],\n\"log\":", Dumped(run.log), ",\n\"files\":", Dumped(Json(run.files)),
      ",\n\"left_out\":", Dumped(left_out), "}");
}

}  // namespace

std::string RunDocument(const std::vector<RunData>& runs) {
  return absl::StrCat("{\"runs\":[",
                      absl::StrJoin(runs, ",\n",
                                    [](std::string* text, const RunData& run) {
                                      absl::StrAppend(text, RunText(run));
                                    }),
                      "]}");
}

}  // namespace mpsd::run_page
