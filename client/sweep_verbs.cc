// SPDX-License-Identifier: Apache-2.0
#include "client/sweep_verbs.h"

#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/command_line.h"
#include "client/job_id.h"
#include "client/sweep_grid.h"
#include "client/sweep_text.h"
#include "client/text/format.h"
#include "client/text/table.h"

namespace mpsd::client {
namespace {

constexpr int kPage = 100;  // the most that the daemon sends at once
constexpr size_t kFewestCharacters = 4;

struct ShowOptions {
  std::string text, svg, csv;
};

// Gives each sweep, newest first, to `take` until that returns false.
template <typename Take>
grpc::Status ForEachSweep(const Console& console, const Take& take) {
  v1::ListSweepsRequest request;
  request.set_page_size(kPage);
  do {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::ListSweepsResponse response;
    grpc::Status status =
        console.daemon.sweeps().ListSweeps(&context, request, &response);
    if (!status.ok()) return status;
    for (const v1::Sweep& sweep : response.sweeps()) {
      if (!take(sweep)) return grpc::Status::OK;
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return grpc::Status::OK;
}

// The id of the one sweep whose id begins or ends with `text`.
std::optional<std::string> ResolveSweepId(const Console& console,
                                          const std::string& text,
                                          ExitCode* code) {
  const std::string see = "See the sweeps there are with `mpsctl sweep list`.";
  std::string part = absl::AsciiStrToUpper(text);
  if (part.size() == kJobIdLength) return part;
  if (part.size() < kFewestCharacters || part.size() > kJobIdLength) {
    *code = console.Fail(
        ExitCode::kBadInput,
        absl::StrCat("'", Printable(text),
                     "' is no part of a sweep's id: give ", kFewestCharacters,
                     " to ", kJobIdLength, " characters"),
        see);
    return std::nullopt;
  }
  std::vector<std::string> found;
  const grpc::Status status = ForEachSweep(console, [&](const auto& sweep) {
    const std::string id = absl::AsciiStrToUpper(sweep.id());
    if (absl::StartsWith(id, part) || absl::EndsWith(id, part)) {
      found.push_back(sweep.id());
    }
    return found.size() < 2;
  });
  if (!status.ok()) {
    *code = console.Fail(status);
  } else if (found.empty()) {
    *code = console.Fail(ExitCode::kNotFound,
                         absl::StrCat("no sweep's id begins or ends with '",
                                      Printable(text), "'"),
                         see);
  } else if (found.size() > 1) {
    *code =
        console.Fail(ExitCode::kBadInput,
                     absl::StrCat("'", Printable(text), "' may be ", found[0],
                                  " or ", found[1], ": give more of the id"),
                     see);
  } else {
    return found[0];
  }
  return std::nullopt;
}

std::string Fields(const v1::Sweep& sweep) {
  std::string text;
  for (const std::string& name : ParameterNames(sweep)) {
    absl::StrAppend(&text, text.empty() ? "" : " ", name);
  }
  return text;
}

ExitCode List(const Console& console) {
  Table table(
      {"ID", "DONE", "BEST", "METRIC", "OWNER", "AGE", "FIELDS", "NAME"});
  int count = 0;
  const absl::Time now = console.terminal.clock->Now();
  const grpc::Status status = ForEachSweep(console, [&](const auto& sweep) {
    ++count;
    if (console.json) {
      console.PrintJson(sweep);
      return true;
    }
    table.Add(
        {sweep.id(), absl::StrCat(EndedChildren(sweep), "/", sweep.total()),
         sweep.has_best_metric() ? absl::StrCat(sweep.best_metric()) : "-",
         sweep.metric(), sweep.owner(),
         Seconds(absl::ToDoubleSeconds(now - ToTime(sweep.create_time()))),
         Fields(sweep), sweep.name()});
    return true;
  });
  if (!status.ok()) return console.Fail(status);
  if (console.json) return ExitCode::kOk;
  if (count == 0) {
    console.out << "No sweeps. Make one with `mpsctl sweep job.json --grid "
                   "FIELD=VALUES`.\n";
    return ExitCode::kOk;
  }
  table.Print(console.out,
              console.terminal.is_tty ? console.terminal.columns() : 0);
  return ExitCode::kOk;
}

ExitCode Show(const Console& console, const ShowOptions& options) {
  ExitCode code = ExitCode::kOk;
  const auto id = ResolveSweepId(console, options.text, &code);
  if (!id) return code;
  grpc::ClientContext context;
  SetDeadline(context);
  v1::GetSweepRequest request;
  request.set_id(*id);
  v1::Sweep sweep;
  const grpc::Status status =
      console.daemon.sweeps().GetSweep(&context, request, &sweep);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(sweep);
  } else {
    PrintSweep(sweep, console.terminal.is_tty ? console.terminal.columns() : 0,
               console.out);
  }
  return WriteSweepFiles(console, sweep, options.svg, options.csv);
}

}  // namespace

bool IsSweep(const Console& console, const std::string& id) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::ListSweepsRequest request;
  request.add_ids(id);
  v1::ListSweepsResponse response;
  return console.daemon.sweeps()
             .ListSweeps(&context, request, &response)
             .ok() &&
         !response.sweeps().empty();
}

ExitCode CancelSweep(const Console& console, const std::string& id) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::CancelSweepRequest request;
  request.set_id(id);
  v1::Sweep sweep;
  const grpc::Status status =
      console.daemon.sweeps().CancelSweep(&context, request, &sweep);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(sweep);
    return ExitCode::kOk;
  }
  console.out << "Sweep " << sweep.id() << ": " << EndedChildren(sweep)
              << " of " << sweep.total() << " jobs have ended";
  if (!HasEnded(sweep)) console.out << ", the others are asked to";
  console.out << ".\n";
  return ExitCode::kOk;
}

void AddSweepVerbs(Command& sweep, Action* action) {
  Command* list = sweep.add_subcommand("list", "Show sweeps, newest first");
  list->callback([=] { *action = List; });

  auto options = std::make_shared<ShowOptions>();
  Command* show = sweep.add_subcommand("show", "Show a sweep's ranking");
  show->add_option(kSweepName, options->text, "The sweep's id")
      ->required()
      ->type_name("");
  show->add_option("--svg", options->svg,
                   "Draw the sweep as parallel coordinates")
      ->type_name("FILE");
  show->add_option("--csv", options->csv,
                   "Write the ranking as comma-separated values")
      ->type_name("FILE");
  show->callback([=] {
    *action = [=](const Console& console) { return Show(console, *options); };
  });

  auto text = std::make_shared<std::string>();
  Command* cancel =
      sweep.add_subcommand("cancel", "Cancel every job of a sweep");
  cancel->add_option(kSweepName, *text, "The sweep's id")
      ->required()
      ->type_name("");
  cancel->callback([=] {
    *action = [=](const Console& console) {
      ExitCode code = ExitCode::kOk;
      const auto id = ResolveSweepId(console, *text, &code);
      return id ? CancelSweep(console, *id) : code;
    };
  });
  for (Command* verb : {list, show, cancel}) verb->fallthrough();
}

}  // namespace mpsd::client
