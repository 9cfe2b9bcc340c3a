// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "client/command_line.h"
#include "client/job_id.h"
#include "client/record.h"
#include "client/spec_edit.h"
#include "client/text/json.h"
#include "client/text/table.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

using Json = nlohmann::ordered_json;
using Sides = std::array<v1::GetRecordResponse, 2>;
using Pair = std::array<std::string, 2>;

constexpr char kSpec[] = "SPEC", kResults[] = "RESULTS";

// What two jobs have under one name, in the order of the first use.
struct Part {
  std::string title;
  std::vector<std::pair<std::string, Pair>> rows;
};

// The spec as it was submitted, with every default.
std::string SpecOf(const v1::GetRecordResponse& side) {
  const std::string& submitted = side.record().spec_json();
  return WithDefaults(submitted.empty() ? side.job().spec_json() : submitted);
}

// Of results everything; of all else what differs.
std::vector<Part> Compare(const Sides& sides, absl::TimeZone zone) {
  std::vector<Part> parts = {{kSpec, {}}};
  for (const FieldChange& change :
       CompareSpecs(SpecOf(sides[0]), SpecOf(sides[1]))) {
    parts[0].rows.push_back({change.field, {change.a, change.b}});
  }
  std::map<std::string, size_t> part_of;
  std::map<std::pair<std::string, std::string>, size_t> row_of;
  for (size_t side = 0; side < 2; ++side) {
    for (const RecordSection& section :
         DescribeRecord(sides[side].record(), /*results=*/true, zone)) {
      const auto [part, is_new] = part_of.emplace(section.title, parts.size());
      if (is_new) parts.push_back({section.title, {}});
      auto& rows = parts[part->second].rows;
      for (const auto& [name, value] : section.rows) {
        const auto [at, added] =
            row_of.emplace(std::pair(section.title, name), rows.size());
        if (added) rows.push_back({name, {"-", "-"}});
        rows[at->second].second[side] = value;
      }
    }
  }
  for (Part& part : parts) {
    if (part.title == kResults) continue;
    std::erase_if(part.rows, [](const auto& row) {
      return row.second[0] == row.second[1];
    });
  }
  return parts;
}

void Print(const Console& console, const Sides& sides,
           const std::vector<Part>& parts) {
  if (parts[0].rows.empty()) console.out << "The specs are the same.\n";
  bool first = !parts[0].rows.empty();
  for (const Part& part : parts) {
    if (part.rows.empty()) continue;
    if (!first) console.out << '\n';
    first = false;
    Table table({part.title, sides[0].job().id(), sides[1].job().id()});
    for (const auto& [name, pair] : part.rows) {
      table.Add({name, pair[0].empty() ? "-" : pair[0],
                 pair[1].empty() ? "-" : pair[1]});
    }
    table.Print(console.out,
                console.terminal.is_tty ? console.terminal.columns() : 0);
  }
}

// As JSON where the text is JSON.
Json ValueOf(const std::string& text) {
  if (text.empty() || text == "-") return nullptr;
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? Json(text) : value;
}

// {"a": ID, "b": ID, "spec": {FIELD: [A, B] …}, "environment": …
//  "jobs": [JOB, JOB], "records": [RECORD, RECORD]}
Json DiffJson(const Sides& sides, const std::vector<Part>& parts) {
  Json json = {{"a", sides[0].job().id()}, {"b", sides[1].job().id()}};
  for (const Part& part : parts) {
    Json& rows = json[absl::AsciiStrToLower(part.title)] = Json::object();
    for (const auto& [field, pair] : part.rows) {
      rows[field] = {ValueOf(pair[0]), ValueOf(pair[1])};
    }
  }
  json["jobs"] = {ToJson(sides[0].job()), ToJson(sides[1].job())};
  json["records"] = {ToJson(sides[0].record()), ToJson(sides[1].record())};
  return json;
}

ExitCode Diff(const std::vector<std::string>& texts, const Console& console) {
  ExitCode code = ExitCode::kOk;
  Sides sides;
  for (size_t i = 0; i < 2; ++i) {
    const auto id = ResolveJobId(console, texts[i], &code,
                                 FewestIdCharacters::kLooks, PastJobs::kToo);
    if (!id) return code;
    const grpc::Status status = FetchRecord(console, *id, &sides[i]);
    if (!status.ok()) return console.Fail(status);
  }
  const std::vector<Part> parts = Compare(sides, console.terminal.zone);
  if (console.json) {
    console.out << DiffJson(sides, parts)
                       .dump(-1, ' ', false, Json::error_handler_t::replace)
                << '\n';
  } else {
    Print(console, sides, parts);
  }
  return ExitCode::kOk;
}

}  // namespace

void AddDiff(Command& app, Action* action) {
  auto ids = std::make_shared<std::vector<std::string>>();
  Command* verb = app.add_subcommand(
      "diff",
      "Compare two jobs, also deleted ones: what differs in their specs,\n"
      "environments, data and conditions, and their results");
  verb->add_option(kJobIdName, *ids, "The two jobs")
      ->required()
      ->expected(2)
      ->type_name("");
  verb->callback([=] {
    *action = [=](const Console& console) { return Diff(*ids, console); };
  });
}

}  // namespace mpsd::client
