// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "client/format.h"
#include "client/job_id.h"
#include "client/reconnect.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

// Prints log bytes, as they are or each line as an object.
class LogPrinter {
 public:
  explicit LogPrinter(const Console& console) : console_(console) {}
  ~LogPrinter() {
    if (!rest_.empty()) PrintLine(rest_);
  }

  void Print(const std::string& data) {
    if (!console_.json) {
      console_.out << data << std::flush;
      return;
    }
    rest_ += data;
    size_t begin = 0;
    for (size_t end; (end = rest_.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      PrintLine(rest_.substr(begin, end - begin));
    }
    rest_.erase(0, begin);
  }

 private:
  void PrintLine(const std::string& line) {
    const nlohmann::json object = {{"line", line}};
    console_.out << object.dump(-1, ' ', false,
                                nlohmann::json::error_handler_t::replace)
                 << '\n'
                 << std::flush;
  }

  const Console& console_;
  std::string rest_;  // a line whose end has not come yet
};

class LogReader {
 public:
  LogReader(const Console& console, std::string id, bool follow)
      : console_(console),
        follow_(follow),
        printer_(console),
        reconnect_(console, absl::Minutes(2)) {
    request_.set_id(std::move(id));
    request_.set_follow(follow);
  }

  ExitCode Run() {
    while (true) {
      bool interrupted = false;
      grpc::Status status = Stream(&interrupted);
      if (interrupted) return ExitCode::kDetached;
      if (status.ok() && !follow_) return ExitCode::kOk;
      bool ended = false;
      if (status.ok()) status = HasEnded(&ended);
      if (ended) return ExitCode::kOk;
      if (!reconnect_.Again(status)) return console_.Fail(status);
    }
  }

 private:
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

void AddLogs(CLI::App& app, Action* action) {
  struct Options {
    std::string id;
    bool follow = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("logs", "Print a job's log");
  verb->add_option(kJobIdName, options->id, "The job")
      ->required()
      ->type_name("");
  verb->add_flag("-f,--follow", options->follow, "Go on until the job ends");
  verb->callback([=] {
    *action = [=](const Console& console) {
      ExitCode code;
      auto id = ResolveJobId(console, options->id, &code);
      if (!id) return code;
      return LogReader(console, *id, options->follow).Run();
    };
  });
}

}  // namespace mpsd::client
