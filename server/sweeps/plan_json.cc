// SPDX-License-Identifier: Apache-2.0
#include "server/sweeps/plan_json.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/base/json_depth.h"

namespace mpsd::sweeps {
namespace {

using Json = nlohmann::json;

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::Status Broken(const std::string& what) {
  return absl::DataLossError(
      absl::StrCat("a sweep's ", what, " makes no sense"));
}

Json ToJson(const Choices& v) { return {{"choices", v.values}}; }
Json ToJson(const Uniform& v) { return {{"uniform", {v.low, v.high}}}; }
Json ToJson(const LogUniform& v) { return {{"log_uniform", {v.low, v.high}}}; }
Json ToJson(const Integers& v) { return {{"integers", {v.low, v.high}}}; }

// The methods of nlohmann throw where a type is another one.
void Read(const Json& json, Parameter& parameter) {
  parameter.field = json.at("field").get<std::string>();
  if (json.contains("choices")) {
    parameter.values =
        Choices{json.at("choices").get<std::vector<std::string>>()};
  } else if (json.contains("uniform")) {
    const Json& range = json.at("uniform");
    parameter.values =
        Uniform{range.at(0).get<double>(), range.at(1).get<double>()};
  } else if (json.contains("log_uniform")) {
    const Json& range = json.at("log_uniform");
    parameter.values =
        LogUniform{range.at(0).get<double>(), range.at(1).get<double>()};
  } else {
    const Json& range = json.at("integers");
    parameter.values =
        Integers{range.at(0).get<int64_t>(), range.at(1).get<int64_t>()};
  }
}

void Read(const Json& json, Plan& plan) {
  plan.strategy = json.at("strategy").get<std::string>() == "random"
                      ? Strategy::kRandom
                      : Strategy::kGrid;
  for (const Json& one : json.at("parameters")) {
    Read(one, plan.parameters.emplace_back());
  }
  plan.count = json.at("count").get<int64_t>();
  plan.seed = json.at("seed").get<int64_t>();
  plan.eta = json.at("eta").get<int64_t>();
  plan.rungs = json.at("rungs").get<std::vector<int64_t>>();
  plan.metric = json.at("metric").get<std::string>();
  plan.greater_is_better = json.at("greater_is_better").get<bool>();
}

}  // namespace

std::string EncodePlan(const Plan& plan) {
  Json parameters = Json::array();
  for (const Parameter& parameter : plan.parameters) {
    Json one = std::visit([](const auto& values) { return ToJson(values); },
                          parameter.values);
    one["field"] = parameter.field;
    parameters.push_back(std::move(one));
  }
  return Dump(
      {{"strategy", plan.strategy == Strategy::kRandom ? "random" : "grid"},
       {"parameters", std::move(parameters)},
       {"count", plan.count},
       {"seed", plan.seed},
       {"eta", plan.eta},
       {"rungs", plan.rungs},
       {"metric", plan.metric},
       {"greater_is_better", plan.greater_is_better}});
}

absl::StatusOr<Plan> DecodePlan(const std::string& json) {
  const Json tree = base::ParseTree<Json>(json);
  Plan plan;
  try {
    Read(tree, plan);
  } catch (const Json::exception&) {
    return Broken("plan");
  }
  return plan;
}

std::string EncodeValues(const std::vector<std::string>& values) {
  return Dump(Json(values));
}

absl::StatusOr<std::vector<std::string>> DecodeValues(const std::string& json) {
  const Json tree = base::ParseTree<Json>(json);
  try {
    return tree.get<std::vector<std::string>>();
  } catch (const Json::exception&) {
    return Broken("child");
  }
}

}  // namespace mpsd::sweeps
