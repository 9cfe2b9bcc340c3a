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

TEST_F(ConsoleTest, NobodyBehindTheSocket) {
  const std::string text =
      Failure(grpc::StatusCode::UNAVAILABLE,
              {"unix:" + socket_.string(), socket_.string()});
  EXPECT_NE(text.find("what happened"), std::string::npos) << text;
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
       {grpc::StatusCode::NOT_FOUND, grpc::StatusCode::UNIMPLEMENTED,
        grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::INTERNAL}) {
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
