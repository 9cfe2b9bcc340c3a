// SPDX-License-Identifier: Apache-2.0
#include "client/console.h"

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class ConsoleTest : public ClientTest {
 protected:
  // What is printed for a failed call to the daemon at `address`.
  std::string Failure(grpc::StatusCode code, const Address& address) {
    std::ostringstream out, err;
    Connection connection(address);
    const Console console{out, err, terminal_, connection, false};
    code_ = console.Fail(grpc::Status(code, "what happened"));
    EXPECT_EQ(out.str(), "");
    return err.str();
  }

  ExitCode code_ = ExitCode::kOk;
};

TEST_F(ConsoleTest, NoSocket) {
  EXPECT_EQ(
      Failure(grpc::StatusCode::UNAVAILABLE,
              {"unix:/srv/none/mpsd.sock", "/srv/none/mpsd.sock"}),
      "mpsctl: cannot reach mpsd at unix:/srv/none/mpsd.sock: there is no such "
      "socket\n"
      "Start it with `mpsd --state-dir /srv/none`, or name another with "
      "--server ADDRESS, MPSD_SERVER or --state-dir DIR.\n");
  EXPECT_EQ(code_, ExitCode::kUnreachable);
}

TEST_F(ConsoleTest, ATunnelThatDidNotOpenIsTheReason) {
  const Address address = FindAddress("ssh://-oProxyCommand=x", "");
  EXPECT_FALSE(address.tunnel->Open().ok());
  const std::string text = Failure(grpc::StatusCode::UNAVAILABLE, address);
  EXPECT_NE(text.find("mpsctl: cannot reach mpsd at ssh://-oProxyCommand=x: "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("that host is no name"), std::string::npos) << text;
  EXPECT_EQ(code_, ExitCode::kBadInput);
}

TEST_F(ConsoleTest, NobodyBehindTheSocket) {
  daemon_->Kill();
  const std::string text =
      Failure(grpc::StatusCode::UNAVAILABLE,
              {"unix:" + socket_.string(), socket_.string()});
  EXPECT_NE(text.find("cannot reach mpsd"), std::string::npos) << text;
  EXPECT_EQ(code_, ExitCode::kUnreachable);
}

TEST_F(ConsoleTest, ADaemonThatIsThereNeedNotBeStarted) {
  EXPECT_EQ(Failure(grpc::StatusCode::UNAVAILABLE,
                    {"unix:" + socket_.string(), socket_.string()}),
            "mpsctl: mpsd cannot do it now: what happened\n"
            "Try again in a few seconds.\n");
  EXPECT_EQ(code_, ExitCode::kTryAgain);
}

TEST_F(ConsoleTest, AnAnswerThatIsLateIsNoMissingDaemon) {
  EXPECT_EQ(Failure(grpc::StatusCode::DEADLINE_EXCEEDED,
                    {"unix:" + socket_.string(), socket_.string()}),
            "mpsctl: mpsd did not answer in time\n"
            "It is busy, or waits for a slow disk. What was asked for may have "
            "happened: look before you ask again (`mpsctl list`).\n");
  EXPECT_EQ(code_, ExitCode::kTryAgain);
}

TEST_F(ConsoleTest, AnOlderDaemonIsNamedAsOne) {
  const std::string text =
      Failure(grpc::StatusCode::UNIMPLEMENTED,
              {"unix:" + socket_.string(), socket_.string()});
  EXPECT_EQ(text,
            "mpsctl: this mpsd does not know what was asked for: what "
            "happened\n"
            "mpsctl and mpsd differ in version: compare `mpsctl --version` "
            "with `mpsd --version`.\n");
}

TEST_F(ConsoleTest, OnlyAFullDiskNeedsRoom) {
  for (const auto& [what, next] :
       {std::pair{"/state/blobs/ab: No space left on device", "Make room"},
        std::pair{"storing job X: database or disk is full", "Make room"},
        std::pair{"/state/jobs: Disk quota exceeded", "Make room"},
        std::pair{"accept: Too many open files", "log/mpsd.log"}}) {
    std::ostringstream err;
    Connection connection({"unix:/none", "/none"});
    const Console console{err, err, terminal_, connection, false};
    console.Fail(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, what));
    EXPECT_NE(err.str().find(next), std::string::npos) << err.str();
  }
}

// What to do stands in the message, and is no matter of the daemon's log.
TEST_F(ConsoleTest, ALimitOfTheUserSpeaksForItself) {
  std::ostringstream err;
  Connection connection({"unix:/none", "/none"});
  const Console console{err, err, terminal_, connection, false};
  console.Fail(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                            "2 are allowed; an admin raises it in mpsd.toml, "
                            "[user.ada] queued-jobs"));
  EXPECT_EQ(err.str(),
            "mpsctl: 2 are allowed; an admin raises it in mpsd.toml, "
            "[user.ada] queued-jobs\n");
}

TEST_F(ConsoleTest, AMessageThatIsTooLargeIsNoFullDisk) {
  std::ostringstream err;
  Connection connection({"unix:/none", "/none"});
  const Console console{err, err, terminal_, connection, false};
  console.Fail(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                            "Sent message larger than max (75 vs. 64)"));
  EXPECT_EQ(err.str(),
            "mpsctl: a message is larger than gRPC may carry: Sent message "
            "larger than max (75 vs. 64)\n"
            "Ask for less at a time (`mpsctl list --limit 20`), or name fewer "
            "files in the job.\n");
}

TEST_F(ConsoleTest, SocketPathTooLong) {
  const std::string path = "/" + std::string(120, 'x') + "/mpsd.sock";
  const std::string text =
      Failure(grpc::StatusCode::UNAVAILABLE, {"unix:" + path, path});
  EXPECT_NE(text.find("choose a shorter --state-dir"), std::string::npos);
}

TEST_F(ConsoleTest, NobodyAtTheHost) {
  EXPECT_EQ(Failure(grpc::StatusCode::UNAVAILABLE, {"studio:1", ""}),
            "mpsctl: cannot reach mpsd at studio:1: what happened\n"
            "Check that mpsd runs and listens on studio:1, or name another "
            "with --server ADDRESS or MPSD_SERVER.\n");
}

TEST_F(ConsoleTest, EachFailureHasANextStep) {
  const Address address{"unix:" + socket_.string(), socket_.string()};
  for (grpc::StatusCode code :
       {grpc::StatusCode::NOT_FOUND, grpc::StatusCode::RESOURCE_EXHAUSTED,
        grpc::StatusCode::INTERNAL}) {
    const std::string text = Failure(code, address);
    EXPECT_EQ(text.substr(0, 22), "mpsctl: what happened\n") << code;
    EXPECT_GT(text.size(), 22u) << code;
  }
}

TEST_F(ConsoleTest, AFailureWithoutWords) {
  std::ostringstream err;
  Connection connection({"unix:/none", "/none"});
  const Console console{err, err, terminal_, connection, false};
  console.Fail(grpc::Status(grpc::StatusCode::ABORTED, ""));
  EXPECT_EQ(err.str(), "mpsctl: the call failed with gRPC status 10\n");
}

TEST_F(ConsoleTest, OneObjectALine) {
  std::ostringstream out;
  Connection connection({"unix:/none", "/none"});
  const Console console{out, out, terminal_, connection, true};
  v1::StateChanged state;
  state.set_message("naïve");
  console.PrintJson(state);
  EXPECT_EQ(out.str(), "{\"state\":null,\"message\":\"naïve\"}\n");
}

}  // namespace
}  // namespace mpsd::client
