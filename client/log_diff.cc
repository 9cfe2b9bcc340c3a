// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "client/command_line.h"
#include "client/log_verbs.h"
#include "client/record_pages.h"
#include "client/record_text.h"
#include "client/spec_edit.h"
#include "client/text/json.h"
#include "client/text/table.h"

namespace mpsd::client {
namespace {

using Json = nlohmann::ordered_json;
using Pair = std::array<std::string, 2>;

// What two records have under one name, in the order of the first use.
struct Part {
  std::string title;
  std::vector<std::pair<std::string, Pair>> rows;
};

// Results are shown side by side though they are the same; of all else only
// what differs.
bool ShowsAll(const std::string& title) { return title == "RESULTS"; }

Part SpecPart(const std::array<v1::Record, 2>& records) {
  Part part{"SPEC", {}};
  for (const FieldChange& change :
       CompareSpecs(WithDefaults(records[0].spec_json()),
                    WithDefaults(records[1].spec_json()))) {
    part.rows.push_back({change.field, {change.a, change.b}});
  }
  return part;
}

std::vector<Part> Compare(const std::array<v1::Record, 2>& records,
                          absl::TimeZone zone) {
  std::vector<Part> parts = {SpecPart(records)};
  std::map<std::string, size_t> part_of;
  std::map<std::pair<std::string, std::string>, size_t> row_of;
  for (size_t side = 0; side < 2; ++side) {
    for (const RecordSection& section : DescribeRecord(records[side], zone)) {
      const auto [part, is_new] = part_of.emplace(section.title, parts.size());
      if (is_new) parts.push_back({section.title, {}});
      auto& rows = parts[part->second].rows;
      for (const RecordRow& row : section.rows) {
        const auto [at, added] =
            row_of.emplace(std::pair(section.title, row.name), rows.size());
        if (added) rows.push_back({row.name, {}});
        rows[at->second].second[side] = row.value;
      }
    }
  }
  for (Part& part : parts) {
    if (ShowsAll(part.title)) continue;
    std::erase_if(part.rows, [](const auto& row) {
      return row.second[0] == row.second[1];
    });
  }
  return parts;
}

void Print(const Console& console, const std::array<v1::Record, 2>& records,
           const std::vector<Part>& parts) {
  bool first = true;
  for (const Part& part : parts) {
    if (part.rows.empty()) {
      if (part.title == "SPEC") console.out << "The specs are the same.\n";
      first = false;
      continue;
    }
    if (!first) console.out << '\n';
    first = false;
    Table table({part.title, records[0].id(), records[1].id()});
    for (const auto& [name, pair] : part.rows) {
      table.Add({name, pair[0].empty() ? "-" : pair[0],
                 pair[1].empty() ? "-" : pair[1]});
    }
    table.Print(console.out,
                console.terminal.is_tty ? console.terminal.columns() : 0);
  }
}

// {"a": ID, "b": ID, "spec": {FIELD: [A, B] …}, "environment": … "records": …
Json DiffJson(const std::array<v1::Record, 2>& records,
              const std::vector<Part>& parts) {
  Json json = {{"a", records[0].id()}, {"b", records[1].id()}};
  for (const Part& part : parts) {
    const std::string name = absl::AsciiStrToLower(part.title);
    Json& rows = json[name] = Json::object();
    for (const auto& [field, pair] : part.rows) {
      Json& row = rows[field] = Json::array();
      for (const std::string& value : pair) {
        row.push_back(value.empty() ? Json(nullptr) : Json(value));
      }
    }
  }
  json["records"] = {ToJson(records[0]), ToJson(records[1])};
  return json;
}

ExitCode Diff(const Console& console, const std::vector<std::string>& ids) {
  std::array<v1::Record, 2> records;
  for (size_t i = 0; i < 2; ++i) {
    const grpc::Status status = FetchRecord(console, ids[i], &records[i]);
    if (!status.ok()) return console.Fail(status);
  }
  const std::vector<Part> parts = Compare(records, console.terminal.zone);
  if (console.json) {
    console.out << DiffJson(records, parts)
                       .dump(-1, ' ', false, Json::error_handler_t::replace)
                << '\n';
  } else {
    Print(console, records, parts);
  }
  return ExitCode::kOk;
}

}  // namespace

void AddLogDiff(Command& log, Action* action) {
  auto ids = std::make_shared<std::vector<std::string>>();
  Command* verb = log.add_subcommand(
      "diff",
      "Two records side by side: what differs in spec, environment, data and "
      "conditions, and the results; also of jobs that are gone");
  verb->fallthrough();
  verb->add_option(kJobIdName, *ids, "The two records")
      ->required()
      ->expected(2)
      ->type_name("");
  verb->callback([=] {
    *action = [=](const Console& console) { return Diff(console, *ids); };
  });
}

}  // namespace mpsd::client
