// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/command_line.h"
#include "client/model_verbs.h"
#include "client/progress_line.h"
#include "client/reconnect.h"
#include "client/text/format.h"

namespace mpsd::client {
namespace {

struct PullOptions {
  std::string name;  // ID[@REVISION]
  bool detach = false;
  bool cancel = false;
  int64_t patience_seconds = 120;
};

// How often a line of progress is printed where there is no terminal.
constexpr absl::Duration kLineInterval = absl::Seconds(10);

// Whether the pull itself ended, as a daemon that is there reports: a new call
// would begin another one.
bool IsEndOfPull(const grpc::Status& status) {
  return absl::StrContains(status.error_message(), "is just ending") ||
         absl::StrContains(status.error_message(), "cancelled the pull");
}

// The percentage in a line of hf's progress bar; 0 without one.
int PercentIn(const std::string& note) {
  const size_t end = note.find('%');
  size_t begin = end == std::string::npos ? 0 : end;
  while (begin > 0 && absl::ascii_isdigit(note[begin - 1])) --begin;
  return end == std::string::npos ? 0 : std::atoi(note.c_str() + begin);
}

class Puller {
 public:
  Puller(const Console& console, const PullOptions& options)
      : console_(console),
        options_(options),
        line_(console),
        reconnect_(console, absl::Seconds(options.patience_seconds)) {
    const size_t at = options.name.find('@');
    request_.set_id(options.name.substr(0, at));
    if (at != std::string::npos) {
      request_.set_revision(options.name.substr(at + 1));
    }
  }

  ExitCode Run() {
    while (true) {
      const grpc::Status status = Stream();
      line_.Clear();
      if (last_.has_model()) return Done();
      if (interrupted_) return Interrupted();
      if (detached_) return Detached();
      const bool again = !IsEndOfPull(status) && reconnect_.ShouldRetry(status);
      if (!again) return GiveUp(status);
    }
  }

  ExitCode Cancel() {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::CancelPullRequest request;
    request.set_id(request_.id());
    request.set_revision(request_.revision());
    v1::CancelPullResponse response;
    const grpc::Status status =
        console_.daemon.models().CancelPull(&context, request, &response);
    if (!status.ok()) return console_.Fail(status);
    if (console_.json) {
      console_.PrintJson(request);
    } else {
      console_.out << "The pull of " << Shown()
                   << " is cancelled; what came stays in the cache, where the "
                   << "next one resumes.\n"
                   << std::flush;
    }
    return ExitCode::kOk;
  }

 private:
  // Prints how the pull goes until the stream ends.
  grpc::Status Stream() {
    grpc::ClientContext context;
    Interrupt::Listener listener(console_.terminal.interrupt,
                                 [&context] { context.TryCancel(); });
    auto reader = console_.daemon.models().Pull(&context, request_);
    v1::PullModelProgress news;
    while (reader->Read(&news)) {
      reconnect_.Received();
      last_ = news;
      Print(news);
      if (options_.detach && !news.has_model()) {
        detached_ = true;
        context.TryCancel();
        break;
      }
    }
    const grpc::Status status = reader->Finish();
    interrupted_ = listener.raised();
    return status;
  }

  void Print(const v1::PullModelProgress& news) {
    if (console_.json) return console_.PrintJson(news);
    const std::string note = Printable(news.note());
    if (note.empty() || news.has_model()) return;
    const std::string line =
        absl::StrCat(Bytes(news.received_bytes()), "  ", note);
    if (console_.terminal.is_tty) {
      return line_.Draw(PercentIn(note), 100, line);
    }
    if (absl::Now() - printed_ < kLineInterval) return;
    printed_ = absl::Now();
    line_.PrintAbove(line);
  }

  ExitCode Done() {
    if (console_.json) return ExitCode::kOk;
    const v1::Model& model = last_.model();
    console_.out << "Model " << Printable(model.name())
                 << " is there: " << ModelText(model) << '\n';
    if (const std::string fit = FitText(model); !fit.empty()) {
      console_.out << "  " << fit << '\n';
    }
    if (!model.problem().empty()) {
      console_.out << "  " << Printable(model.problem()) << '\n';
    }
    console_.out << "Name it in job.json: \"model\": \"" << Shown() << "\"\n"
                 << std::flush;
    return ExitCode::kOk;
  }

  ExitCode Detached() {
    if (!console_.json) {
      console_.out << "mpsd pulls " << Shown() << ".\n"
                   << "Follow it with `mpsctl model pull " << options_.name
                   << "`, stop it with `mpsctl model pull --cancel "
                   << options_.name << "`.\n"
                   << std::flush;
    }
    return ExitCode::kOk;
  }

  ExitCode Interrupted() {
    console_.err << "mpsctl: stopped watching; the pull of " << Shown()
                 << " continues.\n"
                 << "Follow it again with `mpsctl model pull " << options_.name
                 << "`, stop it with `mpsctl model pull --cancel "
                 << options_.name << "`.\n";
    return ExitCode::kDetached;
  }

  ExitCode GiveUp(const grpc::Status& status) {
    if (!status.ok()) return console_.Fail(status);
    return console_.Fail(ExitCode::kTryAgain,
                         "mpsd ended the stream before the pull did",
                         "Follow it again with the same command.");
  }

  std::string Shown() const { return Printable(options_.name); }

  const Console& console_;
  const PullOptions& options_;
  v1::PullModelRequest request_;
  v1::PullModelProgress last_;
  bool interrupted_ = false;
  bool detached_ = false;
  absl::Time printed_ = absl::InfinitePast();
  ProgressLine line_;
  Reconnect reconnect_;
};

ExitCode Pull(const PullOptions& options, const Console& console) {
  if (!options.name.empty() && options.name.back() == '@') {
    return console.Fail(
        ExitCode::kBadInput,
        absl::StrCat(Printable(options.name), ": no revision follows the '@'"),
        "Name a branch, a tag or a commit, or leave the '@' out for main.");
  }
  Puller puller(console, options);
  return options.cancel ? puller.Cancel() : puller.Run();
}

}  // namespace

void AddModelPull(Command& model, Action* action) {
  auto options = std::make_shared<PullOptions>();
  Command* verb = model.add_subcommand(
      "pull", "Have mpsd fetch a model by its machine's `hf download`");
  verb->add_option("ID[@REVISION]", options->name,
                   "The model on the hub, ORG/NAME, at a branch, a tag or a\n"
                   "commit; default: main")
      ->required()
      ->type_name("");
  auto* detach = verb->add_flag("--detach", options->detach,
                                "Leave once mpsd pulls; follow it with the\n"
                                "same command without --detach");
  verb->add_flag("--cancel", options->cancel,
                 "End a pull that is under way; what came stays")
      ->excludes(detach);
  verb->add_option("--patience", options->patience_seconds,
                   "How long to wait for a daemon that went away")
      ->type_name("SECONDS")
      ->capture_default_str();
  verb->callback([=] {
    *action = [=](const Console& console) { return Pull(*options, console); };
  });
}

}  // namespace mpsd::client
