// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/app.h"
#include "client/connection.h"
#include "client/console.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "tests/client/fake_daemon.h"

namespace mpsd::client {

// What most tests here are written with.
using grpc::StatusCode;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;
using Args = std::vector<std::string>;

inline constexpr char kId[] = "01KAH0000000000000000000AA";
inline constexpr char kOtherId[] = "01KAH0000000000000000000BB";

// 2026-01-02 03:04:05 UTC.
inline const absl::Time kNow = absl::FromUnixSeconds(1767323045);

inline void SetTime(google::protobuf::Timestamp* stamp, absl::Duration ago) {
  stamp->set_seconds(absl::ToUnixSeconds(kNow - ago));
}

class StoppedClock final : public base::Clock {
 public:
  absl::Time Now() const override { return kNow; }
  absl::Duration Monotonic() const override { return absl::ZeroDuration(); }
};

// A message of a Download stream: a file's head, or data of the file.
inline v1::DownloadResponse FileHead(const std::string& path, int64_t bytes) {
  v1::DownloadResponse part;
  part.mutable_file()->set_path(path);
  part.mutable_file()->set_size_bytes(bytes);
  return part;
}
inline v1::DownloadResponse FileData(const std::string& data) {
  v1::DownloadResponse part;
  part.set_data(data);
  return part;
}

// How mpsctl ended.
struct Result {
  int code;
  std::string out;
  std::string err;
};
inline std::ostream& operator<<(std::ostream& out, const Result& result) {
  return out << result.code << ", out:\n"
             << result.out << "err:\n"
             << result.err;
}

using TextMatcher = testing::Matcher<const std::string&>;
inline testing::Matcher<const Result&> Ends(testing::Matcher<int> code,
                                            TextMatcher out = testing::_,
                                            TextMatcher err = testing::_) {
  return AllOf(testing::Field("code", &Result::code, code),
               testing::Field("out", &Result::out, out),
               testing::Field("err", &Result::err, err));
}
inline testing::Matcher<const Result&> Prints(TextMatcher out = testing::_) {
  return Ends(0, out);
}
inline testing::Matcher<const Result&> Fails(testing::Matcher<int> code,
                                             TextMatcher err = testing::_) {
  return Ends(code, testing::_, err);
}

inline nlohmann::json ParseJson(const std::string& text) {
  return nlohmann::json::parse(text);
}

// The one of those there are.
template <typename List>
const auto& Only(const List& list) {
  EXPECT_EQ(std::size(list), 1u);
  return list.at(0);
}

// A job that was deleted.
inline v1::Job PastJob(const std::string& id) {
  v1::Job job;
  job.set_id(id);
  job.set_past(true);
  return job;
}

// Runs mpsctl in this process against a fake daemon.
class ClientTest : public testing::Test {
 protected:
  ClientTest() {
    std::string name = testing::TempDir() + "mpsctlXXXXXX";
    folder_ = mkdtemp(name.data());
    socket_ = folder_ / "mpsd.sock";
    daemon_ = std::make_unique<FakeDaemon>(socket_.string());
    for (const char* name : {"MPSD_SERVER", "MPSD_CONTEXT", "MPSD_STATE_DIR",
                             "MPSD_TOKEN", "XDG_CONFIG_HOME"}) {
      unsetenv(name);
    }
    setenv("USER", "ann", 1);
    // Where contexts are kept.
    setenv("HOME", folder_.c_str(), 1);
    terminal_.clock = &clock_;
    terminal_.sleep = [this](absl::Duration) { ++sleeps_; };
    terminal_.interrupt = &interrupt_;
    terminal_.ask = [this](const std::string& question,
                           Echo echo) -> absl::StatusOr<std::string> {
      asked_ += question + (echo == Echo::kOff ? "(hidden)" : "") + "\n";
      if (answers_.empty()) {
        return absl::FailedPreconditionError("no terminal");
      }
      const std::string answer = answers_.front();
      answers_.erase(answers_.begin());
      return answer;
    };
  }
  ~ClientTest() override {
    daemon_.reset();
    std::filesystem::remove_all(folder_);
  }

  // The verb alone, without any address.
  Result RunBare(const Args& args) {
    std::ostringstream out, err;
    daemon_->Sync();
    const int code = client::Run(args, out, err, terminal_);
    daemon_->Sync();
    return {code, out.str(), err.str()};
  }
  Result RunVerb(Args args) {
    args.insert(args.begin(), {"--state-dir", folder_.string()});
    return RunBare(args);
  }

  // The output of one that succeeds.
  std::string BareOut(const Args& args) {
    const Result result = RunBare(args);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  }
  std::string Out(Args args) {
    args.insert(args.begin(), {"--state-dir", folder_.string()});
    return BareOut(args);
  }

  FakeDaemon::Data& data() { return daemon_->data(); }
  FakeDaemon::Data::Models& models() { return data().models; }
  FakeDaemon::Data::Runbook& runbook() { return data().runbook; }
  // What a method of the daemon ends with from now on.
  void Fail(const std::string& method, StatusCode code,
            const std::string& message) {
    data().fail[method] = grpc::Status(code, message);
  }

  // A job that is the newest.
  v1::Job& AddJob(const std::string& id, v1::JobState state) {
    v1::Job job;
    job.set_id(id);
    job.set_name("moods");
    job.set_owner("ann");
    job.set_state(state);
    SetTime(job.mutable_create_time(), absl::Minutes(3));
    return *data().jobs.insert(data().jobs.begin(), job);
  }
  v1::Job& JobOf(const std::string& id) {
    for (v1::Job& job : data().jobs) {
      if (job.id() == id) return job;
    }
    return data().jobs.front();
  }

  v1::JobEvent& AddEvent(const std::string& id) {
    auto& events = data().events[id];
    v1::JobEvent event;
    event.set_sequence(static_cast<int64_t>(events.size()) + 1);
    SetTime(event.mutable_time(), absl::ZeroDuration());
    return events.emplace_back(event);
  }
  void AddState(const std::string& id, v1::JobState state) {
    AddEvent(id).mutable_state()->set_state(state);
  }
  // A job that has ended so, as its last event says.
  v1::Job& AddEnded(const std::string& id, v1::JobState state) {
    AddState(id, state);
    return AddJob(id, state);
  }
  void AddProgress(const std::string& id, int64_t step, int64_t total) {
    v1::Progress& progress = *AddEvent(id).mutable_progress();
    progress.set_step(step);
    progress.set_total_steps(total);
    progress.set_loss(2.5);
    progress.set_learning_rate(5e-5);
    progress.set_grad_norm(1.25);
    progress.set_tokens_per_second(1234);
    progress.set_eta_seconds(80);
  }

  // What a function of the client is called with, outside of a verb: it prints
  // to out_ and err_.
  Console TestConsole(bool json = false) {
    daemon_->Sync();
    connection_ = std::make_unique<Connection>(SocketAddress(), &interrupt_);
    out_.str("");
    err_.str("");
    return {out_, err_, terminal_, *connection_, json};
  }
  Address SocketAddress() const { return FindAddress("", folder_.string()); }

  std::string Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }
  static std::string Read(const std::filesystem::path& path) {
    return base::ReadFile(path).value();
  }
  // Adds a whole file to what Download streams.
  v1::DownloadResponse::File& AddFile(const std::string& path,
                                      const std::string& bytes) {
    const size_t at = data().download.size();
    data().download.push_back(
        FileHead(path, static_cast<int64_t>(bytes.size())));
    data().download[at].mutable_file()->set_sha256(base::Sha256Hex(bytes));
    for (size_t i = 0; i < bytes.size(); i += 1'000'000) {
      data().download.push_back(FileData(bytes.substr(i, 1'000'000)));
    }
    return *data().download[at].mutable_file();
  }

  // A small job and its data; where the job is.
  std::string WriteJob(const std::string& more = "") {
    Write("t.jsonl", "{\"text\": \"a\"}\n");
    return Write(
        "job.json",
        R"({"model": "org/id", "dataset": {"train": "t.jsonl"})" + more + "}");
  }

  std::filesystem::path folder_;
  std::filesystem::path socket_;
  std::unique_ptr<FakeDaemon> daemon_;
  StoppedClock clock_;
  Interrupt interrupt_;
  Terminal terminal_;
  std::ostringstream out_, err_;
  std::unique_ptr<Connection> connection_;
  int sleeps_ = 0;
  std::string asked_;                 // questions
  std::vector<std::string> answers_;  // to them; none left: no terminal
};

}  // namespace mpsd::client
