// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/command_line.h"
#include "client/job_id.h"
#include "client/text/format.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

ExitCode Note(const std::string& text, const std::string& note,
              const Console& console) {
  ExitCode code = ExitCode::kOk;
  const auto id = ResolveJobId(console, text, &code, FewestIdCharacters::kLooks,
                               PastJobs::kToo);
  if (!id) return code;
  v1::AddNoteRequest request;
  request.set_id(*id);
  request.set_text(note);
  grpc::ClientContext context;
  SetDeadline(context);
  v1::GetRecordResponse response;
  const grpc::Status status =
      console.daemon.jobs().AddNote(&context, request, &response);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(response);
  } else {
    console.out << *id << ": notes " << response.record().notes_size() << '\n';
  }
  return ExitCode::kOk;
}

ExitCode Tag(const std::string& text, const std::vector<std::string>& words,
             bool remove, const Console& console) {
  ExitCode code = ExitCode::kOk;
  const auto id = ResolveJobId(console, text, &code, FewestIdCharacters::kLooks,
                               PastJobs::kToo);
  if (!id) return code;
  v1::TagRequest request;
  request.set_id(*id);
  (remove ? request.mutable_remove() : request.mutable_add())
      ->Assign(words.begin(), words.end());
  grpc::ClientContext context;
  SetDeadline(context);
  v1::GetRecordResponse response;
  const grpc::Status status =
      console.daemon.jobs().Tag(&context, request, &response);
  if (!status.ok()) return console.Fail(status);
  const auto& tags = response.record().tags();
  if (console.json) {
    console.PrintJson(response);
  } else {
    console.out << *id << ": "
                << (tags.empty() ? "no tags"
                                 : Printable(absl::StrJoin(tags, ", ")))
                << '\n';
  }
  return ExitCode::kOk;
}

}  // namespace

void AddNote(Command& app, Action* action) {
  struct Options {
    std::string id, text;
  };
  auto options = std::make_shared<Options>();
  Command* verb = app.add_subcommand(
      "note", "Add a note to a job, also to a deleted one; notes stay");
  verb->add_option(kJobIdName, options->id, "The job")
      ->required()
      ->type_name("");
  verb->add_option("TEXT", options->text, "At most 4,096 bytes")
      ->required()
      ->type_name("");
  verb->callback([=] {
    *action = [=](const Console& console) {
      return Note(options->id, options->text, console);
    };
  });
}

void AddTag(Command& app, Action* action) {
  struct Options {
    std::string id;
    std::vector<std::string> words;
    bool remove = false;
  };
  auto options = std::make_shared<Options>();
  Command* verb = app.add_subcommand(
      "tag", "Add tags to a job, also to a deleted one, or remove them");
  verb->add_option(kJobIdName, options->id, "The job")
      ->required()
      ->type_name("");
  verb->add_option("WORD", options->words,
                   "Tags, of letters, digits and ._-+/@")
      ->required()
      ->type_name("");
  verb->add_flag("--remove", options->remove, "Remove these tags");
  verb->callback([=] {
    *action = [=](const Console& console) {
      return Tag(options->id, options->words, options->remove, console);
    };
  });
}

}  // namespace mpsd::client
