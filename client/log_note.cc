// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/command_line.h"
#include "client/log_verbs.h"
#include "client/text/format.h"

namespace mpsd::client {
namespace {

constexpr char kEntry[] = "-";  // in the place of an id

struct NoteOptions {
  std::string id;
  std::string text;
  bool rejected = false;
};

ExitCode Note(const Console& console, const NoteOptions& options) {
  v1::AddNoteRequest request;
  if (options.id != kEntry) request.set_id(options.id);
  if (options.id != kEntry && options.id.empty()) {
    return console.Fail(ExitCode::kBadInput, "ID: must not be empty",
                        "Take - for an entry of its own.");
  }
  request.set_text(options.text);
  request.set_rejected(options.rejected);
  grpc::ClientContext context;
  SetDeadline(context);
  v1::Record record;
  const grpc::Status status =
      console.daemon.logbook().AddNote(&context, request, &record);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(record);
  } else {
    console.out << Printable(record.id())
                << (options.id == kEntry
                        ? ": an entry of its own"
                        : absl::StrCat(": notes ", record.notes_size()))
                << '\n';
  }
  return ExitCode::kOk;
}

}  // namespace

void AddLogNote(Command& log, Action* action) {
  auto options = std::make_shared<NoteOptions>();
  Command* verb = log.add_subcommand(
      "note", "Add a note to a record, or an entry of its own; notes stay");
  verb->fallthrough();
  verb->add_option(kJobIdName, options->id,
                   "The record, or - for an entry of its own")
      ->required()
      ->type_name("");
  verb->add_option("TEXT", options->text, "At most 4,096 bytes")
      ->required()
      ->type_name("");
  verb->add_flag("--rejected", options->rejected,
                 "What was tried and is not so: a hypothesis to spare others");
  verb->callback([=] {
    *action = [=](const Console& console) { return Note(console, *options); };
  });
}

}  // namespace mpsd::client
