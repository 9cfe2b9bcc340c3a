// SPDX-License-Identifier: Apache-2.0
#include "client/logs.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "client/connection.h"
#include "client/event_printer.h"
#include "client/job_id.h"
#include "client/text/format.h"
#include "client/verbs.h"
#include "core/base/text.h"

namespace mpsd::client {

namespace {

// Whether the log has a byte at `offset`. The API does not report a log's size.
grpc::Status Reaches(const Console& console, const std::string& job_id,
                     int64_t offset, bool* reaches) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::LogsRequest request;
  request.set_id(job_id);
  request.set_offset_bytes(offset);
  auto reader = console.daemon.jobs().Logs(&context, request);
  v1::LogChunk chunk;
  *reaches = reader->Read(&chunk);
  if (*reaches) context.TryCancel();
  const grpc::Status status = reader->Finish();
  return *reaches ? grpc::Status::OK : status;
}

// Finds a multiple of `step` that is within the log while the next one is not.
grpc::Status LastReached(const Console& console, const std::string& job_id,
                         int64_t step, int64_t* offset) {
  int64_t least = 0, beyond = 1;  // in steps
  grpc::Status status;
  for (bool reaches = true; status.ok() && reaches;) {
    status = Reaches(console, job_id, beyond * step, &reaches);
    if (reaches) least = beyond;
    if (reaches) beyond *= 2;
  }
  while (status.ok() && beyond - least > 1) {
    const int64_t middle = least + (beyond - least) / 2;
    bool reaches = false;
    status = Reaches(console, job_id, middle * step, &reaches);
    (reaches ? least : beyond) = middle;
  }
  *offset = least * step;
  return status;
}

}  // namespace

grpc::Status ReadLogTail(const Console& console, const std::string& job_id,
                         int64_t most_bytes, LogTail* tail) {
  const int64_t step = most_bytes / 2;
  int64_t offset = 0;
  grpc::Status status = LastReached(console, job_id, step, &offset);
  if (!status.ok()) return status;
  tail->before_bytes = offset > step ? offset - step : 0;
  grpc::ClientContext context;
  SetDeadline(context);
  v1::LogsRequest request;
  request.set_id(job_id);
  request.set_offset_bytes(tail->before_bytes);
  auto reader = console.daemon.jobs().Logs(&context, request);
  v1::LogChunk chunk;
  // A running job's log grows meanwhile.
  while (static_cast<int64_t>(tail->text.size()) < most_bytes &&
         reader->Read(&chunk)) {
    tail->text += chunk.data();
  }
  context.TryCancel();
  status = reader->Finish();
  if (status.error_code() == grpc::StatusCode::CANCELLED) {
    status = grpc::Status::OK;
  }
  tail->text.resize(
      std::min<size_t>(tail->text.size(), static_cast<size_t>(most_bytes)));
  if (tail->before_bytes > 0) {
    const size_t line = tail->text.find('\n') + 1;  // npos + 1 is 0
    tail->text.erase(0, line);
    tail->before_bytes += static_cast<int64_t>(line);
  }
  return status;
}

namespace {

// The number of last bytes that begin an incomplete UTF-8 character.
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

// Prints log bytes: raw, with escapes for what would control a terminal, or
// each line as an object.
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

  // Prints the unfinished last line or character. Call it last.
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
  std::string rest_;  // an unfinished line or character
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
    v1::Job job;
    grpc::Status status = GetJob(console_, request_.id(), &job);
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
  verb->add_flag("-f,--follow", options->follow,
                 "Follow the log until the job ends");
  verb->add_flag("--raw", options->raw,
                 "Print the raw bytes, even on a terminal");
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
