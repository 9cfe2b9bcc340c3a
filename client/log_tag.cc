// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/command_line.h"
#include "client/log_verbs.h"
#include "client/text/format.h"

namespace mpsd::client {
namespace {

ExitCode Tag(const Console& console, const std::string& id,
             const std::vector<std::string>& tags) {
  v1::TagRecordRequest request;
  request.set_id(id);
  for (const std::string& tag : tags) {
    if (tag.starts_with("--")) {
      return console.Fail(
          ExitCode::kBadInput,
          absl::StrCat(Printable(tag), " is neither a tag nor an option here"),
          "Options stand before the verb: mpsctl --json log tag ID +NAME.");
    }
    if (tag.starts_with("-")) {
      request.add_remove(tag.substr(1));
    } else {
      request.add_add(tag.starts_with("+") ? tag.substr(1) : tag);
    }
  }
  grpc::ClientContext context;
  SetDeadline(context);
  v1::Record record;
  const grpc::Status status =
      console.daemon.logbook().TagRecord(&context, request, &record);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(record);
  } else {
    console.out << Printable(record.id()) << ": "
                << (record.tags().empty()
                        ? "no tags"
                        : Printable(absl::StrJoin(record.tags(), ", ")))
                << '\n';
  }
  return ExitCode::kOk;
}

}  // namespace

void AddLogTag(Command& log, Action* action) {
  struct Options {
    std::string id;
    std::vector<std::string> tags;
  };
  auto options = std::make_shared<Options>();
  Command* verb =
      log.add_subcommand("tag", "Add tags, +NAME, and remove tags, -NAME");
  verb->add_option(kJobIdName, options->id, "The record")
      ->required()
      ->type_name("");
  verb->add_option("TAGS", options->tags,
                   "+NAME or -NAME, of letters, digits and ._-+/@")
      ->type_name("");
  // "-NAME" looks like an option.
  verb->allow_extras();
  verb->callback([=] {
    std::vector<std::string> tags = options->tags;
    for (const std::string& tag : verb->remaining()) tags.push_back(tag);
    *action = [=](const Console& console) {
      return Tag(console, options->id, tags);
    };
  });
}

}  // namespace mpsd::client
