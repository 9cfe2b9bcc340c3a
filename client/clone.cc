// SPDX-License-Identifier: Apache-2.0
#include "client/clone.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/command_line.h"
#include "client/job_id.h"
#include "client/show.h"
#include "client/submit.h"
#include "client/text/format.h"
#include "client/text/json.h"
#include "client/verbs.h"
#include "core/base/text.h"
#include "core/base/status_macros.h"
#include "core/spec/fields.h"
#include "core/spec/train_spec.h"
#include "nlohmann/json.hpp"

namespace mpsd::client {

namespace {

using Json = nlohmann::ordered_json;

absl::Status Invalid(const std::string& option, const std::string& text,
                     const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat(option, " '", text, "': ", what));
}

absl::Status Set(Json& spec, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) {
    return Invalid("--set", text, "expected FIELD=VALUE");
  }
  const absl::Status set = spec::SetField(
      spec, text.substr(0, equals), spec::FieldValue(text.substr(equals + 1)));
  return set.ok() ? set : Invalid("--set", text, std::string(set.message()));
}

absl::Status Unset(Json& spec, const std::string& field) {
  const absl::Status unset = spec::UnsetField(spec, field);
  return unset.ok() ? unset
                    : Invalid("--unset", field, std::string(unset.message()));
}

using Flat = std::vector<std::pair<std::string, std::string>>;

// Lists stay whole: their elements have no names. A tree that keeps the order
// of fields would search all of them for each.
void Flatten(const nlohmann::json& json, const std::string& prefix,
             Flat& flat) {
  for (const auto& [key, value] : json.items()) {
    const std::string field =
        prefix.empty() ? key : absl::StrCat(prefix, ".", key);
    if (value.is_object() && !value.empty()) {
      Flatten(value, field, flat);
    } else {
      flat.emplace_back(field, value.dump());
    }
  }
}

Flat Flattened(const std::string& text) {
  Flat flat;
  const auto json = base::ParseTree<nlohmann::json>(text);
  if (json.is_object()) Flatten(json, "", flat);
  return flat;
}

std::string Normal(const std::string& path) {
  std::string normal =
      std::filesystem::path(path).lexically_normal().generic_string();
  if (normal.size() > 1 && normal.back() == '/') normal.pop_back();
  return normal;
}

// Whether `named` contains the path or a folder above it.
bool IsNamed(const std::set<std::string>& named, const std::string& path) {
  if (named.contains(path) || named.contains(".")) return true;
  for (size_t at = path.rfind('/'); at != std::string::npos && at > 0;
       at = path.rfind('/', at - 1)) {
    if (named.contains(path.substr(0, at))) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::string> EditSpec(const std::string& spec_json,
                                     const std::vector<std::string>& set,
                                     const std::vector<std::string>& unset) {
  if (set.empty() && unset.empty()) return spec_json;
  Json spec = base::ParseTree<Json>(spec_json);
  if (!spec.is_object()) {
    return absl::InvalidArgumentError("the job's spec is not a JSON object");
  }
  for (const std::string& text : set) {
    RETURN_IF_ERROR(Set(spec, text));
  }
  for (const std::string& field : unset) {
    RETURN_IF_ERROR(Unset(spec, field));
  }
  return spec.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string WithDefaults(const std::string& spec_json) {
  const auto spec = spec::ParseTrainSpec(spec_json, "job.json");
  return spec.ok() ? spec::ToJson(*spec) : spec_json;
}

std::vector<FieldChange> CompareSpecs(const std::string& a,
                                      const std::string& b) {
  const Flat left = Flattened(a), right = Flattened(b);
  std::map<std::string, std::string> others(right.begin(), right.end());
  std::vector<FieldChange> changes;
  for (const auto& [field, value] : left) {
    const auto other = others.extract(field);
    const std::string theirs = other.empty() ? "" : other.mapped();
    if (value != theirs) changes.push_back({field, value, theirs});
  }
  for (const auto& [field, value] : right) {
    if (others.contains(field)) changes.push_back({field, "", value});
  }
  return changes;
}

void DropUnusedInputs(v1::SubmitRequest& request) {
  const auto spec = spec::ParseTrainSpec(request.spec_json(), "job.json");
  if (!spec.ok() || spec->task == spec::Task::kImageCls) return;
  std::set<std::string> named;
  spec::VisitPaths(*spec, [&](const char*, const std::string& path) {
    if (!path.empty()) named.insert(Normal(path));
  });
  auto& inputs = *request.mutable_inputs();
  const auto unused = std::remove_if(
      inputs.begin(), inputs.end(),
      [&](const auto& input) { return !IsNamed(named, Normal(input.path())); });
  inputs.erase(unused, inputs.end());
}

namespace {

struct CloneOptions {
  std::string id;
  std::vector<std::string> set, unset, after, job_labels;
  std::string name;
  std::optional<int32_t> priority;
  bool hold = false, anyway = false, detach = false, dry_run = false;
};

std::string Shown(const std::string& json) {
  return json.empty() ? "(absent)" : json;
}

// What differs in the clone; `a` and `b` are the two specs.
void PrintChanges(const Console& console, const std::string& id,
                  const std::string& a, const std::string& b) {
  if (console.json) return;
  const std::vector<FieldChange> changes =
      CompareSpecs(WithDefaults(a), WithDefaults(b));
  if (changes.empty()) {
    console.out << "The clone has the spec of job " << id << ".\n";
    return;
  }
  Table table({"FIELD", "JOB", "CLONE"});
  for (const FieldChange& change : changes) {
    table.Add({change.field, Shown(change.a), Shown(change.b)});
  }
  table.Print(console.out,
              console.terminal.is_tty ? console.terminal.columns() : 0);
}

// Changes `request`, which is a job's, to the clone's.
absl::Status Change(const CloneOptions& options, v1::SubmitRequest& request) {
  std::vector<std::string> set = options.set;
  if (!options.name.empty()) {
    set.push_back(absl::StrCat("name=", nlohmann::json(options.name).dump()));
  }
  ASSIGN_OR_RETURN(std::string spec,
                   EditSpec(request.spec_json(), set, options.unset));
  ASSIGN_OR_RETURN(const auto parsed,
                   spec::ParseTrainSpec(spec, "the clone's job.json"));
  request.set_spec_json(std::move(spec));
  DropUnusedInputs(request);
  // A label of the command line replaces the job's.
  google::protobuf::Map<std::string, std::string> job_labels;
  absl::Status added = AddJobLabels(options.job_labels, &job_labels);
  for (const auto& [key, value] : job_labels) {
    (*request.mutable_labels())[key] = value;
  }
  if (options.priority) request.set_priority(*options.priority);
  request.set_anyway(request.anyway() || options.anyway);
  request.set_held(options.hold);
  // The jobs that the original waited for existed when it was submitted; the
  // clone waits for those of the command line.
  request.clear_after();
  return added;
}

ExitCode Clone(const CloneOptions& options, const Console& console) {
  ExitCode code = ExitCode::kOk;
  const auto id = ResolveJobId(console, options.id, &code);
  if (!id) return code;
  const auto after = ResolveJobIds(console, options.after, &code,
                                   FewestIdCharacters::kChanges);
  if (!after) return code;

  grpc::ClientContext context;
  SetDeadline(context);
  v1::GetSubmissionRequest ask;
  ask.set_id(*id);
  v1::SubmitRequest request;
  const grpc::Status status =
      console.daemon.jobs().GetSubmission(&context, ask, &request);
  if (!status.ok()) return console.Fail(status);
  const std::string spec = request.spec_json();
  if (absl::Status s = Change(options, request); !s.ok()) {
    return console.Fail(ExitCode::kBadInput, s, "Nothing was submitted.");
  }
  for (const std::string& prior : *after) request.add_after(prior);
  PrintChanges(console, *id, spec, request.spec_json());
  if (options.dry_run) {
    if (console.json) console.PrintJson(request);
    return ExitCode::kOk;
  }
  // The job's inputs exist as long as the job: nothing is sent.
  const auto no_upload = [] { return grpc::Status::OK; };
  return SendJob(console, std::move(request), no_upload, options.detach);
}

}  // namespace

void AddClone(Command& app, Action* action) {
  auto options = std::make_shared<CloneOptions>();
  Command* verb = app.add_subcommand(
      "clone", "Queue a job like another, with its data, and watch it");
  verb->add_option(kJobIdName, options->id, "The job")
      ->required()
      ->type_name("");
  verb->add_option("--set", options->set,
                   "Change a field: training.learning_rate=1e-4;\n"
                   "VALUE is JSON or plain text; repeatable")
      ->type_name("FIELD=VALUE")
      ->allow_extra_args(false);
  verb->add_option("--unset", options->unset,
                   "Reset a field to its default; repeatable")
      ->type_name("FIELD")
      ->allow_extra_args(false);
  verb->add_option("--name", options->name, "The clone's name")
      ->type_name("NAME");
  verb->add_option("--after", options->after,
                   "Start once this job has succeeded; repeatable")
      ->type_name(kJobIdName)
      ->allow_extra_args(false);
  verb->add_option("--priority", options->priority,
                   "Higher runs first; default: the job's")
      ->type_name("N");
  verb->add_option("--label", options->job_labels,
                   "In addition to the job's labels; repeatable")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  verb->add_flag("--hold", options->hold, "Queue it held");
  verb->add_flag("--anyway", options->anyway,
                 "Queue it even if it needs more memory than the machine has");
  verb->add_flag("--detach", options->detach, "Do not watch: exit once queued");
  verb->add_flag("--dry-run", options->dry_run,
                 "Show what would change; with --json the request");
  verb->callback([=] {
    *action = [=](const Console& console) { return Clone(*options, console); };
  });
}

namespace {

using Sides = std::array<v1::GetRecordResponse, 2>;
using Pair = std::array<std::string, 2>;

constexpr char kSpec[] = "SPEC", kResults[] = "RESULTS";

// What two jobs have under one name, in order of first use.
struct Part {
  std::string title;
  std::vector<std::pair<std::string, Pair>> rows;
};

// The spec as it was submitted, with every default.
std::string SpecOf(const v1::GetRecordResponse& side) {
  const std::string& submitted = side.record().spec_json();
  return WithDefaults(submitted.empty() ? side.job().spec_json() : submitted);
}

// All results; of everything else only the differences.
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
      table.Add({name, OrDash(pair[0]), OrDash(pair[1])});
    }
    table.Print(console.out,
                console.terminal.is_tty ? console.terminal.columns() : 0);
  }
}

// As JSON if the text is JSON.
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
      "Compare two jobs, including deleted ones: their specs,\n"
      "environments, data, conditions and results");
  verb->add_option(kJobIdName, *ids, "The two jobs")
      ->required()
      ->expected(2)
      ->type_name("");
  verb->callback([=] {
    *action = [=](const Console& console) { return Diff(*ids, console); };
  });
}

}  // namespace mpsd::client
