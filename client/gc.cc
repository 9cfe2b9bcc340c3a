// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/text/format.h"
#include "client/text/table.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

std::string KindName(v1::CollectionItem::Kind kind) {
  switch (kind) {
    case v1::CollectionItem::KIND_JOB:
      return "job";
    case v1::CollectionItem::KIND_CHECKPOINTS:
      return "checkpoints";
    case v1::CollectionItem::KIND_BLOB:
      return "upload";
    case v1::CollectionItem::KIND_PARTIAL_UPLOAD:
      return "part of an upload";
    case v1::CollectionItem::KIND_LEFTOVER:
      return "leftover";
    default:
      return absl::StrCat("kind ", static_cast<int>(kind));
  }
}

// A SHA-256 is cut: nobody types it.
std::string ShortId(const v1::CollectionItem& item) {
  constexpr size_t kShown = 26;
  if (item.id().empty()) return "-";
  return item.id().size() > kShown ? item.id().substr(0, 12) + "…" : item.id();
}

void PrintUse(const v1::PlanCollectionResponse& plan, const Console& console) {
  if (plan.used_bytes() == 0) {
    console.out << "The state folder has not been measured yet.\n";
  } else if (plan.budget_bytes() == 0) {
    console.out << "The state folder has " << Bytes(plan.used_bytes())
                << ", and no budget.\n";
  } else {
    console.out << "The state folder has " << Bytes(plan.used_bytes())
                << " of a budget of " << Bytes(plan.budget_bytes()) << ".\n";
  }
  if (!plan.short_of().empty()) {
    console.out << "Short of room: " << Printable(plan.short_of()) << ".\n";
  }
}

void PrintPlan(const v1::PlanCollectionResponse& plan, const Console& console) {
  if (plan.items().empty()) {
    console.out << "Nothing would go.\n";
    return PrintUse(plan, console);
  }
  Table table({"WHAT", "ID", "SIZE", "OWNER", "NAME", "WHY"});
  for (const v1::CollectionItem& item : plan.items()) {
    table.Add({KindName(item.kind()), ShortId(item), Bytes(item.size_bytes()),
               item.owner().empty() ? "-" : item.owner(),
               item.name().empty() ? "-" : item.name(), item.why()});
  }
  table.Print(console.out,
              console.terminal.is_tty ? console.terminal.columns() : 0);
  if (plan.more() > 0) {
    console.out << "… and " << Count(plan.more()) << " more\n";
  }
  console.out << Count(plan.items_size() + plan.more()) << " would go, about "
              << Bytes(plan.freed_bytes()) << " given back.\n";
  PrintUse(plan, console);
}

ExitCode Plan(const Console& console) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::PlanCollectionResponse plan;
  const grpc::Status status =
      console.daemon.daemon().PlanCollection(&context, {}, &plan);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(plan);
  } else {
    PrintPlan(plan, console);
  }
  return ExitCode::kOk;
}

ExitCode Collect(const Console& console) {
  grpc::ClientContext context;
  Interrupt::Listener listener(console.terminal.interrupt,
                               [&context] { context.TryCancel(); });
  v1::CollectResponse collected;
  // No deadline: many folders take long to remove.
  const grpc::Status status =
      console.daemon.daemon().Collect(&context, {}, &collected);
  if (listener.raised()) {
    return console.Fail(ExitCode::kDetached,
                        "interrupted; a part of it may have gone", "");
  }
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(collected);
  } else {
    for (const std::string& failed : collected.failed()) {
      console.out << "Stays: " << Printable(failed) << '\n';
    }
    console.out << Count(collected.removed()) << " removed, "
                << Bytes(collected.freed_bytes()) << " given back.\n";
  }
  return ExitCode::kOk;
}

}  // namespace

void AddGc(Command& app, Action* action) {
  auto dry_run = std::make_shared<bool>(false);
  Command* verb = app.add_subcommand(
      "gc", "Remove now what mpsd's --keep-… and budget let go");
  verb->add_flag("--dry-run", *dry_run,
                 "Tell what would go, and why; remove nothing");
  verb->callback([=] {
    *action = [=](const Console& console) {
      return *dry_run ? Plan(console) : Collect(console);
    };
  });
}

}  // namespace mpsd::client
