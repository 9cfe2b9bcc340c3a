// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "client/job_id.h"
#include "client/reconnect.h"
#include "client/text/format.h"
#include "client/verbs.h"
#include "core/base/printable.h"

namespace mpsd::client {
namespace {

// The number of last bytes that begin a UTF-8 character whose rest is missing.
size_t CutOff(std::string_view text) {
  for (size_t i = 1; i <= 3 && i <= text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[text.size() - i]);
    if ((byte & 0xC0) == 0x80) continue;
    const size_t length = byte >= 0xF0   ? 4
                          : byte >= 0xE0 ? 3
                          : byte >= 0xC0 ? 2
                                         : 1;
    return length > i ? i : 0;
  }
  return 0;
}

// Prints log bytes: as they are, with escapes for what would steer a terminal,
// or each line as an object.
class LogPrinter {
 public:
  LogPrinter(const Console& console, bool raw)
      : console_(console), raw_(raw || !console.terminal.is_tty) {}
  void Print(const std::string& data) {
    if (!console_.json && raw_) {
      console_.out << data << std::flush;
      return;
    }
    rest_ += data;
    if (!console_.json) {
      const size_t whole = rest_.size() - CutOff(rest_);
      PrintClean(std::string_view(rest_).substr(0, whole));
      rest_.erase(0, whole);
      return;
    }
    size_t begin = 0;
    for (size_t end; (end = rest_.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      PrintLine(rest_.substr(begin, end - begin));
    }
    rest_.erase(0, begin);
  }

  // Prints the line or character whose end has not come. Call it last.
  void Finish() {
    if (rest_.empty()) return;
    if (console_.json) {
      PrintLine(rest_);
    } else {
      PrintClean(rest_);
    }
  }

 private:
  void PrintClean(std::string_view text) {
    console_.out << base::Printable(text, base::Breaks::kKeep) << std::flush;
  }

  void PrintLine(const std::string& line) {
    const nlohmann::json object = {{"line", line}};
    const std::string text =
        object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    console_.out << (raw_ ? text : base::Printable(text)) << '\n' << std::flush;
  }

  const Console& console_;
  const bool raw_;
  std::string rest_;  // a line or character without its end
};

class LogReader {
 public:
  LogReader(const Console& console, std::string id, bool follow, bool raw)
      : console_(console),
        follow_(follow),
        printer_(console, raw),
        reconnect_(console, absl::Minutes(2)) {
    request_.set_id(std::move(id));
    request_.set_follow(follow);
  }

  ExitCode Run() {
    const ExitCode code = ReadToTheEnd();
    printer_.Finish();
    return code;
  }

 private:
  ExitCode ReadToTheEnd() {
    while (true) {
      bool interrupted = false;
      grpc::Status status = Stream(&interrupted);
      if (interrupted) return ExitCode::kDetached;
      if (status.ok() && !follow_) return ExitCode::kOk;
      bool ended = false;
      if (status.ok()) status = HasEnded(&ended);
      if (ended) return ExitCode::kOk;
      if (!reconnect_.ShouldRetry(status)) return console_.Fail(status);
    }
  }

  grpc::Status Stream(bool* interrupted) {
    grpc::ClientContext context;
    Interrupt::Listener listener(console_.terminal.interrupt,
                                 [&context] { context.TryCancel(); });
    auto reader = console_.daemon.jobs().Logs(&context, request_);
    v1::LogChunk chunk;
    while (reader->Read(&chunk)) {
      if (follow_) reconnect_.Received();
      request_.set_offset_bytes(chunk.offset_bytes() +
                                static_cast<int64_t>(chunk.data().size()));
      printer_.Print(chunk.data());
    }
    grpc::Status status = reader->Finish();
    *interrupted = listener.raised();
    return status;
  }

  grpc::Status HasEnded(bool* ended) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::GetJobRequest request;
    request.set_id(request_.id());
    v1::Job job;
    grpc::Status status = console_.daemon.jobs().Get(&context, request, &job);
    *ended = status.ok() && IsFinal(job.state());
    return status;
  }

  const Console& console_;
  const bool follow_;
  v1::LogsRequest request_;
  LogPrinter printer_;
  Reconnect reconnect_;
};

}  // namespace

void AddLogs(Command& app, Action* action) {
  struct Options {
    std::string id;
    bool follow = false;
    bool raw = false;
  };
  auto options = std::make_shared<Options>();
  Command* verb = app.add_subcommand("logs", "Print a job's log");
  verb->add_option(kJobIdName, options->id, "The job")
      ->required()
      ->type_name("");
  verb->add_flag("-f,--follow", options->follow, "Go on until the job ends");
  verb->add_flag("--raw", options->raw,
                 "Its bytes as they are, on a terminal too");
  verb->callback([=] {
    *action = [=](const Console& console) {
      ExitCode code;
      auto id = ResolveJobId(console, options->id, &code);
      if (!id) return code;
      return LogReader(console, *id, options->follow, options->raw).Run();
    };
  });
}

}  // namespace mpsd::client
