// SPDX-License-Identifier: Apache-2.0
#include "client/schema.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/verbs.h"
#include "core/spec/job_schema.h"

namespace mpsd::client {

void AddSchema(Command& app, Action* action) {
  auto markdown = std::make_shared<bool>(false);
  Command* verb = app.add_subcommand(
      "schema", "Print the JSON Schema of job.json, for editors");
  verb->add_flag("--markdown", *markdown,
                 "Print the fields as Markdown tables instead");
  verb->callback([=] {
    *action = [=](const Console& console) {
      if (*markdown) {
        console.out << JobReference();
      } else {
        console.out << spec::JobSchema().dump(console.json ? -1 : 2) << '\n';
      }
      return ExitCode::kOk;
    };
  });
}

namespace {

using Json = nlohmann::ordered_json;

std::string Code(const std::string& text) {
  return absl::StrCat("`", text, "`");
}

std::string BoundsText(const Json& schema) {
  std::vector<std::string> bounds;
  for (const auto& [keyword, sign] :
       {std::pair{"minimum", ">="}, std::pair{"exclusiveMinimum", ">"},
        std::pair{"maximum", "<="}, std::pair{"exclusiveMaximum", "<"}}) {
    if (!schema.contains(keyword)) continue;
    bounds.push_back(absl::StrCat(sign, " ", schema[keyword].dump()));
  }
  if (schema.contains("not")) {
    bounds.push_back(absl::StrCat("not ", schema["not"]["const"].dump()));
  }
  return bounds.empty() ? "" : " " + absl::StrJoin(bounds, " and ");
}

// The text for one of the types that `schema` allows.
std::string OneTypeText(const std::string& type, const Json& schema) {
  if (type == "array") {
    return absl::StrCat("list of ", schema["items"]["type"].get<std::string>(),
                        "s", BoundsText(schema["items"]));
  }
  if (type == "object" &&
      schema.value("additionalProperties", Json()).is_object()) {
    const Json& value = schema["additionalProperties"];
    return absl::StrCat("object of ", value["type"].get<std::string>(), "s",
                        BoundsText(value));
  }
  if (type == "integer" || type == "number") {
    return type + BoundsText(schema);
  }
  return type;
}

std::string DefaultText(const std::string& name, const Json& field,
                        const Json& parent) {
  if (field.contains("default")) return Code(field["default"].dump());
  const Json required = parent.value("required", Json::array());
  for (const Json& one : required) {
    if (one == name) return "required";
  }
  return field.contains("properties") ? "" : "absent";
}

// One row per field of `object`; a section's row links to the section's own
// table.
std::string Table(const Json& object) {
  std::string rows =
      "| field | type | default | meaning |\n|---|---|---|---|\n";
  for (const auto& [name, field] : object["properties"].items()) {
    const std::string title =
        field.contains("properties")
            ? absl::StrCat("[", Code(name), "](#", name, ")")
            : Code(name);
    absl::StrAppend(&rows, "| ", title, " | ", TypeText(field), " | ",
                    DefaultText(name, field, object), " | ",
                    field["description"].get<std::string>(), " |\n");
  }
  return rows;
}

}  // namespace

std::string TypeText(const Json& schema) {
  std::vector<std::string> texts;
  if (schema.contains("enum")) {
    for (const Json& word : schema["enum"]) {
      if (word.is_string()) texts.push_back(Code(word.dump()));
    }
    return absl::StrJoin(texts, ", ");
  }
  const Json& type = schema["type"];
  const Json types = type.is_array() ? type : Json::array({type});
  for (const Json& one : types) {
    if (one == "null") continue;
    texts.push_back(OneTypeText(one.get<std::string>(), schema));
  }
  return absl::StrJoin(texts, " or ");
}

std::string JobReference() {
  const Json schema = spec::JobSchema();
  std::string text = Table(schema);
  for (const auto& [name, field] : schema["properties"].items()) {
    if (!field.contains("properties")) continue;
    absl::StrAppend(&text, "\n### ", name, "\n\n",
                    field["description"].get<std::string>(), "\n\n",
                    Table(field));
  }
  return text;
}

}  // namespace mpsd::client
