// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/text/format.h"
#include "client/text/table.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

using Entry = v1::QueueResponse::Entry;

std::string OwnerText(const std::string& owner) {
  return owner.empty() ? "-" : Printable(owner);
}

std::string Why(const Entry& entry, const Console& console) {
  std::string why = entry.why();
  if (!entry.hold().empty()) absl::StrAppend(&why, "; held: ", entry.hold());
  if (entry.has_not_before()) {
    absl::StrAppend(
        &why, "; not before ",
        DateTime(ToTime(entry.not_before()), console.terminal.zone));
  }
  return Printable(why);
}

void PrintPlaces(const v1::QueueResponse& queue, const Console& console) {
  Table table({"PLACE", "ID", "OWNER", "PRIORITY", "WAITS", "NAME", "WHY"});
  int place = 0;
  for (const Entry& entry : queue.entries()) {
    const bool runs = entry.state() == v1::JOB_STATE_RUNNING;
    const absl::Duration waits =
        console.terminal.clock->Now() - ToTime(entry.queue_time());
    table.Add(
        {runs ? "runs" : absl::StrCat(++place), entry.id(),
         OwnerText(entry.owner()), absl::StrCat(entry.priority()),
         runs ? "-" : Seconds(std::max(0.0, absl::ToDoubleSeconds(waits))),
         Printable(entry.name()), Why(entry, console)});
  }
  table.Print(console.out,
              console.terminal.is_tty ? console.terminal.columns() : 0);
  if (queue.more() > 0) {
    console.out << "and " << Count(queue.more()) << " more\n";
  }
}

void PrintUsage(const v1::QueueResponse& queue, const Console& console) {
  if (queue.usage().empty()) return;
  console.out << "\nWhat these owners used of the device lately; half of it is "
                 "forgotten in "
              << Seconds(queue.half_life_seconds()) << ":\n";
  Table table({"OWNER", "USED"});
  for (const auto& usage : queue.usage()) {
    table.Add({OwnerText(usage.owner()), Seconds(usage.seconds())});
  }
  table.Print(console.out, 0);
}

ExitCode Queue(const Console& console) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::QueueResponse queue;
  grpc::Status status = console.daemon.jobs().Queue(&context, {}, &queue);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(queue);
    return ExitCode::kOk;
  }
  if (queue.entries().empty()) {
    console.out << "No job runs or waits.\n";
    return ExitCode::kOk;
  }
  PrintPlaces(queue, console);
  PrintUsage(queue, console);
  return ExitCode::kOk;
}

}  // namespace

void AddQueue(Command& app, Action* action) {
  Command* verb = app.add_subcommand(
      "queue", "Show in which order the jobs will run, and why");
  verb->callback([=] { *action = Queue; });
}

}  // namespace mpsd::client
