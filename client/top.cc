// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/top/curses_screen.h"
#include "client/top/loop.h"
#include "client/top_feed.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

constexpr char kInstead[] =
    "Without a terminal use `mpsctl list`, `mpsctl info` and `mpsctl watch "
    "ID`, with --json for programs.";

// By the convention of no-color.org.
bool WantsColours() {
  const char* no_color = getenv("NO_COLOR");
  return no_color == nullptr || *no_color == 0;
}

// Shows the terminal until the end; the feed and the screen are gone then.
absl::StatusOr<top::Ending> Show(const Console& console,
                                 const v1::InfoResponse& info) {
  top::CursesScreen::Options options;
  options.colours = WantsColours();
  options.utf8 = console.terminal.utf8;
  auto screen = top::CursesScreen::Open(options);
  if (!screen.ok()) return screen.status();
  const base::Clock& clock = *console.terminal.clock;
  Interrupt::Listener listener(console.terminal.interrupt,
                               [&] { (*screen)->Interrupt(); });
  TopFeed feed(console.daemon.address(), clock, [&] { (*screen)->Wake(); });
  top::Model model(console.daemon.address().target, clock.Now());
  model.Apply(top::Answered{info, clock.Now(), {}});
  return top::Loop(model, **screen, feed, clock, console.terminal.zone);
}

ExitCode Top(const Console& console) {
  if (console.json) {
    return console.Fail(ExitCode::kBadInput, "top prints no JSON", kInstead);
  }
  if (!console.terminal.is_tty) {
    return console.Fail(ExitCode::kBadInput, "top needs a terminal", kInstead);
  }
  // A daemon that is not there is an error; one that goes away later is not.
  v1::InfoResponse info;
  {
    grpc::ClientContext context;
    SetDeadline(context);
    const grpc::Status status =
        console.daemon.daemon().Info(&context, v1::InfoRequest(), &info);
    if (!status.ok()) return console.Fail(status);
  }
  if (console.daemon.address().tunnel != nullptr) {
    console.daemon.address().tunnel->StopAsking();
  }
  const absl::StatusOr<top::Ending> ending = Show(console, info);
  if (!ending.ok()) {
    return console.Fail(ExitCode::kBadInput, ending.status(), kInstead);
  }
  // The terminal is restored: the process ends as the signal would have.
  if (ending->why == top::Ending::kSignal) raise(ending->signal);
  return ending->why == top::Ending::kQuit ? ExitCode::kOk
                                           : ExitCode::kDetached;
}

}  // namespace

void AddTop(CLI::App& app, Action* action) {
  CLI::App* verb = app.add_subcommand(
      "top", "Show the machine, the queue and the running job, live");
  verb->callback([=] { *action = Top; });
}

}  // namespace mpsd::client
