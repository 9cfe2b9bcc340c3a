// SPDX-License-Identifier: Apache-2.0
#include "client/console.h"

#include <fcntl.h>
#include <signal.h>
#include <termios.h>

#include <fstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/client/port_fixture.h"

namespace mpsd::client {
namespace {

class ConsoleTest : public ClientTest {
 protected:
  // What is printed for a failed call to the daemon at `address`.
  std::string Failure(StatusCode code, const Address& address,
                      const std::string& message = "what happened") {
    std::ostringstream out, err;
    Connection connection(address);
    const Console console{out, err, terminal_, connection, false};
    code_ = console.Fail(grpc::Status(code, message));
    EXPECT_EQ(out.str(), "");
    return err.str();
  }

  ExitCode code_ = ExitCode::kOk;
};

TEST_F(ConsoleTest, AFailureSaysWhatToDo) {
  const Address here = SocketAddress();
  const struct {
    StatusCode status;
    Address address;
    const char* text;
    ExitCode code;
  } cases[] = {
      {StatusCode::UNAVAILABLE,
       {"unix:/srv/none/mpsd.sock", "/srv/none/mpsd.sock"},
       "cannot reach mpsd at unix:/srv/none/mpsd.sock: there is no such "
       "socket\n"
       "Start it with `mpsd --state-dir /srv/none`, log in to another "
       "machine's with `mpsctl login HOST:PORT`, or name one with --server "
       "ADDRESS, MPSD_SERVER or --state-dir DIR.\n",
       ExitCode::kUnreachable},
      {StatusCode::UNAVAILABLE,
       {"unix:/srv/none", "/srv/none"},
       "cannot reach mpsd at unix:/srv/none: there is no such socket\n"
       "Check the path: mpsd's socket is mpsd.sock in its state folder; or "
       "name another with --server ADDRESS, MPSD_SERVER or --state-dir DIR.\n",
       ExitCode::kUnreachable},
      {StatusCode::UNAVAILABLE,
       {"studio:1", ""},
       "cannot reach mpsd at studio:1: what happened\n"
       "Check that mpsd runs and listens on studio:1, or name another with "
       "--server ADDRESS or MPSD_SERVER.\n",
       ExitCode::kUnreachable},
      // A daemon that is there need not be started.
      {StatusCode::UNAVAILABLE, here,
       "mpsd cannot do it now: what happened\nTry again in a few seconds.\n",
       ExitCode::kTryAgain},
      {StatusCode::DEADLINE_EXCEEDED, here,
       "mpsd did not answer in time\n"
       "It is busy, or waits for a slow disk. The request may have been "
       "carried out: check before you repeat it (`mpsctl list`).\n",
       ExitCode::kTryAgain},
      {StatusCode::UNIMPLEMENTED, here,
       "this mpsd does not support the request: what happened\n"
       "mpsctl and mpsd differ in version: compare `mpsctl --version` with "
       "`mpsd --version`.\n",
       ExitCode::kOther}};
  for (const auto& one : cases) {
    EXPECT_EQ(Failure(one.status, one.address),
              std::string("mpsctl: ") + one.text);
    EXPECT_EQ(code_, one.code) << one.text;
  }
  for (StatusCode code :
       {StatusCode::RESOURCE_EXHAUSTED, StatusCode::INTERNAL}) {
    const std::string text = Failure(code, here);
    EXPECT_EQ(text.substr(0, 22), "mpsctl: what happened\n") << code;
    EXPECT_GT(text.size(), 22u) << code;
  }
  EXPECT_EQ(Failure(StatusCode::ABORTED, here, ""),
            "mpsctl: the call failed with gRPC status 10\n");
}

TEST_F(ConsoleTest, ASocketThatDoesNotAnswer) {
  daemon_->Kill();
  EXPECT_THAT(Failure(StatusCode::UNAVAILABLE, SocketAddress()),
              HasSubstr("cannot reach mpsd"));
  EXPECT_EQ(code_, ExitCode::kUnreachable);
  // The file of a running daemon's socket was removed.
  std::ofstream(folder_ / "lock") << getpid() << "\n";
  const std::string removed = folder_ / "removed.sock";
  EXPECT_THAT(Failure(StatusCode::UNAVAILABLE, {"unix:" + removed, removed}),
              HasSubstr(absl::StrCat("If process ", getpid(), " is mpsd")));
  const std::string path = "/" + std::string(120, 'x') + "/mpsd.sock";
  EXPECT_THAT(Failure(StatusCode::UNAVAILABLE, {"unix:" + path, path}),
              HasSubstr("choose a shorter --state-dir"));
}

TEST_F(ConsoleTest, OnlyAFullDiskNeedsRoom) {
  const auto failure = [this](const char* what) {
    return Failure(StatusCode::RESOURCE_EXHAUSTED, SocketAddress(), what);
  };
  for (const auto& [what, next] :
       {std::pair{"/state/blobs/ab: No space left on device", "Make room"},
        std::pair{"storing job X: database or disk is full", "Make room"},
        std::pair{"/state/jobs: Disk quota exceeded", "Make room"},
        std::pair{"accept: Too many open files", "log/mpsd.log"}}) {
    EXPECT_THAT(failure(what), HasSubstr(next));
  }
  // What to do about a user's limit is in the message, and is no matter of
  // the daemon's log.
  const char limit[] =
      "2 are allowed; an admin raises it in mpsd.toml, "
      "[user.ada] queued-jobs";
  EXPECT_EQ(failure(limit), std::string("mpsctl: ") + limit + "\n");
  EXPECT_EQ(failure("Sent message larger than max (75 vs. 64)"),
            "mpsctl: a message is larger than gRPC may carry: Sent message "
            "larger than max (75 vs. 64)\n"
            "Request less at a time (`mpsctl list --limit 20`), or name fewer "
            "files in the job.\n");
}

TEST(IsUtf8LocaleTest, BySpelling) {
  for (const char* name : {"en_US.UTF-8", "C.utf8", "UTF-8", "de_DE.utf-8@x"}) {
    EXPECT_TRUE(IsUtf8Locale(nullptr, nullptr, name)) << name;
  }
  for (const char* name : {"C", "POSIX", "en_US.ISO-8859-1", "utf"}) {
    EXPECT_FALSE(IsUtf8Locale(nullptr, nullptr, name)) << name;
  }
  EXPECT_FALSE(IsUtf8Locale("C", "C.UTF-8", "C.UTF-8"));
  EXPECT_TRUE(IsUtf8Locale("", "C.UTF-8", "C"));
  EXPECT_FALSE(IsUtf8Locale(nullptr, "C", "C.UTF-8"));
  EXPECT_TRUE(IsUtf8Locale(nullptr, "", "C.UTF-8"));
  EXPECT_FALSE(IsUtf8Locale(nullptr, nullptr, nullptr));
  EXPECT_FALSE(IsUtf8Locale("", "", ""));
}

TEST(InterruptTest, WakesTheListenerOnce) {
  Interrupt interrupt;
  int woken = 0;
  Interrupt::Listener listener(&interrupt, [&] { ++woken; });
  EXPECT_FALSE(listener.raised());
  EXPECT_TRUE(interrupt.Raise());
  EXPECT_TRUE(listener.raised());
  EXPECT_FALSE(interrupt.Raise()) << "a second Ctrl-C ends the process";
  EXPECT_EQ(woken, 1);
}

TEST(InterruptTest, OfTwoTheInnerIsWokenAndThenTheOuterAgain) {
  Interrupt interrupt;
  int outer_woken = 0, inner_woken = 0;
  const Interrupt::Listener outer(&interrupt, [&] { ++outer_woken; });
  {
    const Interrupt::Listener inner(&interrupt, [&] { ++inner_woken; });
  }
  EXPECT_TRUE(interrupt.Raise());
  EXPECT_EQ(outer_woken, 1);
  EXPECT_EQ(inner_woken, 0);
  Interrupt other;
  const Interrupt::Listener first(&other, [&] { ++outer_woken; });
  const Interrupt::Listener second(&other, [&] { ++inner_woken; });
  EXPECT_TRUE(other.Raise());
  EXPECT_EQ(outer_woken, 1);
  EXPECT_EQ(inner_woken, 1);
  EXPECT_TRUE(first.raised()) << "it sees on its own what happened";
}

// A terminal whose other end the test types on.
class PromptTest : public testing::Test {
 protected:
  PromptTest() {
    master_ = posix_openpt(O_RDWR | O_NOCTTY);
    EXPECT_EQ(grantpt(master_), 0);
    EXPECT_EQ(unlockpt(master_), 0);
    device_ = ptsname(master_);
    // Keeps the terminal's settings while no other process has it open.
    slave_ = open(device_.c_str(), O_RDWR | O_NOCTTY);
  }
  ~PromptTest() override {
    close(slave_);
    close(master_);
  }

  void Type(const std::string& keys) {
    EXPECT_EQ(write(master_, keys.data(), keys.size()),
              static_cast<ssize_t>(keys.size()));
  }
  // What the terminal shows until `end`.
  std::string ShownUntil(const std::string& end) {
    std::string shown;
    char c = 0;
    while (!shown.ends_with(end) && read(master_, &c, 1) == 1) shown += c;
    return shown;
  }
  tcflag_t Flags() const {
    termios settings;
    EXPECT_EQ(tcgetattr(slave_, &settings), 0);
    return settings.c_lflag;
  }
  // Types once the question is shown and the echo is off.
  absl::StatusOr<std::string> AskHidden(const std::string& keys) {
    const tcflag_t before = Flags();
    std::thread user([&] {
      ShownUntil("Token: ");
      while ((Flags() & ECHO) != 0) absl::SleepFor(absl::Milliseconds(1));
      // In pieces that a terminal holds.
      for (size_t at = 0; at < keys.size(); at += 1000) {
        if (at > 0) absl::SleepFor(absl::Milliseconds(2));
        Type(keys.substr(at, 1000));
      }
    });
    auto line = Ask("Token: ", Echo::kOff, device_.c_str());
    user.join();
    EXPECT_EQ(Flags(), before);
    return line;
  }

  int master_, slave_;
  std::string device_;
};

TEST_F(PromptTest, ALineWithEcho) {
  Type("yes\n");
  EXPECT_EQ(Ask("Trust it? ", Echo::kOn, device_.c_str()).value(), "yes");
  Type("no\n");
  ASSERT_TRUE(Ask("a\x1b[2Jb? ", Echo::kOn, device_.c_str()).ok());
  EXPECT_EQ(ShownUntil("b? ").find('\x1b'), std::string::npos);
}

TEST_F(PromptTest, ASecretIsNotShownAndCanBeCorrected) {
  EXPECT_EQ(AskHidden("secret\n").value(), "secret");
  EXPECT_EQ(ShownUntil("\n").find("secret"), std::string::npos);
  EXPECT_EQ(AskHidden("sexx\x7f\x08"
                      "cret\r")
                .value(),
            "secret");
  EXPECT_EQ(AskHidden("wrong\x15"
                      "right\n")
                .value(),
            "right");
  EXPECT_EQ(AskHidden("\x7f\x7f"
                      "a\n")
                .value(),
            "a");
  EXPECT_TRUE(absl::IsCancelled(AskHidden("sec\x03").status()));
  EXPECT_TRUE(absl::IsCancelled(AskHidden("\x04").status()));
}

TEST_F(PromptTest, AnEndlessLineTakesNoMemory) {
  const auto line = AskHidden(std::string(30'000, 'a') + "\n");
  ASSERT_TRUE(line.ok());
  EXPECT_LE(line->size(), 4096);
}

TEST_F(PromptTest, SignalsRestoreTheTerminal) {
  const tcflag_t before = Flags();
  for (int signal : {SIGTERM, SIGHUP}) {
    EXPECT_EXIT(
        {
          std::thread killer([&] {
            while ((Flags() & ECHO) != 0) absl::SleepFor(absl::Milliseconds(1));
            kill(getpid(), signal);
          });
          killer.detach();
          Ask("Token: ", Echo::kOff, device_.c_str()).IgnoreError();
        },
        testing::KilledBySignal(signal), "");
    EXPECT_EQ(Flags(), before);
  }
}

TEST_F(PromptTest, WithoutATerminal) {
  for (const char* device : {"/dev/null", "/nowhere/tty"}) {
    EXPECT_EQ(Ask("?", Echo::kOn, device).status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

TEST(ExitCodeTest, OfAStatus) {
  const std::pair<StatusCode, ExitCode> table[] = {
      {StatusCode::OK, ExitCode::kOk},
      {StatusCode::UNAVAILABLE, ExitCode::kUnreachable},
      {StatusCode::DEADLINE_EXCEEDED, ExitCode::kTryAgain},
      {StatusCode::NOT_FOUND, ExitCode::kNotFound},
      {StatusCode::UNAUTHENTICATED, ExitCode::kNotLetIn},
      {StatusCode::PERMISSION_DENIED, ExitCode::kNotLetIn},
      {StatusCode::INVALID_ARGUMENT, ExitCode::kBadInput},
      {StatusCode::FAILED_PRECONDITION, ExitCode::kBadInput},
      {StatusCode::ALREADY_EXISTS, ExitCode::kBadInput},
      {StatusCode::RESOURCE_EXHAUSTED, ExitCode::kOther},
      {StatusCode::INTERNAL, ExitCode::kOther},
  };
  for (const auto& [status, code] : table) {
    EXPECT_EQ(ForStatus(grpc::Status(status, "")), code) << status;
  }
}

TEST(ExitCodeTest, OfATunnel) {
  EXPECT_EQ(ForTunnel(absl::UnavailableError("")), ExitCode::kUnreachable);
  EXPECT_EQ(ForTunnel(absl::InvalidArgumentError("")), ExitCode::kBadInput);
  EXPECT_EQ(ForTunnel(absl::InternalError("")), ExitCode::kOther);
  for (const auto code :
       {StatusCode::PERMISSION_DENIED, StatusCode::UNAUTHENTICATED}) {
    EXPECT_EQ(ForTunnel(absl::Status(static_cast<absl::StatusCode>(code), "")),
              ForStatus(grpc::Status(code, "")))
        << "refused is refused, whoever does it";
  }
}

TEST(ExitCodeTest, HelpNamesEachNumber) {
  const std::string help = ExitCodeHelp();
  for (ExitCode code :
       {ExitCode::kOk, ExitCode::kJobFailed, ExitCode::kBadInput,
        ExitCode::kUnreachable, ExitCode::kNotFound, ExitCode::kJobCancelled,
        ExitCode::kOther, ExitCode::kTryAgain, ExitCode::kNotLetIn,
        ExitCode::kVerdictFail, ExitCode::kVerdictWarn, ExitCode::kDetached}) {
    EXPECT_TRUE(absl::StrContains(
        help, absl::StrCat("\n  ", static_cast<int>(code), " ")))
        << static_cast<int>(code);
  }
}

// What a verb says after a login, once something has changed.
class RefusalTest : public PortClientTest {
 protected:
  // Logs in and then serves on the same port with other credentials.
  Result AfterLogin(std::shared_ptr<grpc::ServerCredentials> credentials) {
    EXPECT_EQ(Login({"--name", "studio"}).code, 0);
    Serve(std::move(credentials));
    Context context = Contexts().Find("studio").value();
    context.server = Server();
    EXPECT_TRUE(Contexts().Save(context).ok());
    return RunBare({"list"});
  }
};

TEST_F(RefusalTest, AnotherAuthority) {
  const TestAuthority another(folder_ / "another");
  EXPECT_THAT(
      AfterLogin(TlsServer(another.Issue("IP:127.0.0.1"), another.pem())),
      Fails(8,
            AllOf(HasSubstr(
                      "is not signed by the authority that the context studio "
                      "trusts: its fingerprint is " +
                      FingerprintOf(another.pem()) + ", expected " +
                      FingerprintOf(authority_.pem())),
                  HasSubstr("someone is intercepting the connection"))));
  EXPECT_TRUE(data().authorizations.empty());
}

TEST_F(RefusalTest, AnExpiredCertificate) {
  EXPECT_THAT(AfterLogin(TlsServer(authority_.Issue("IP:127.0.0.1", -1),
                                   authority_.pem())),
              Fails(8, HasSubstr("expired on ")));
}

TEST_F(RefusalTest, AnotherName) {
  EXPECT_THAT(
      AfterLogin(TlsServer(authority_.Issue("DNS:attic"), authority_.pem())),
      Fails(8, HasSubstr("is not for '127.0.0.1', but for attic")));
}

TEST_F(RefusalTest, AServerThatSpeaksTlsNoMore) {
  EXPECT_THAT(AfterLogin(grpc::experimental::LocalServerCredentials(LOCAL_TCP)),
              Fails(3, HasSubstr("does not speak TLS 1.3")));
}

TEST_F(RefusalTest, WhatOneMayNotAndATokenThatIsRevoked) {
  ASSERT_EQ(Login({"--name", "studio"}).code, 0);
  Fail("List", StatusCode::PERMISSION_DENIED, "needs the role admin");
  EXPECT_THAT(RunBare({"list"}),
              Fails(8, AllOf(HasSubstr("needs the role admin"),
                             HasSubstr("`mpsctl info` shows who you are"))));
  AddJob(kId, v1::JOB_STATE_RUNNING);
  AddState(kId, v1::JOB_STATE_RUNNING);
  Fail("Watch", StatusCode::UNAUTHENTICATED, "the token was revoked");
  EXPECT_THAT(RunBare({"watch", kId}),
              Fails(8, AllOf(HasSubstr("the token was revoked"),
                             HasSubstr("ask an admin for a new one"))));
  EXPECT_EQ(data().watched.size(), 1);
  EXPECT_EQ(sleeps_, 0);
  data().fail.clear();
  data().authorization = "Bearer another";
  EXPECT_THAT(RunBare({"list"}),
              Fails(8, AllOf(HasSubstr("The token of the context studio has "
                                       "expired or was revoked"),
                             HasSubstr("`mpsctl login " + Server() +
                                       " --name studio`"))));
}

TEST_F(RefusalTest, NoLoginYet) {
  // The port of a daemon with TLS on this machine, taken for one without.
  EXPECT_THAT(
      RunBare({"--server", Server(), "list"}),
      Fails(8, AllOf(HasSubstr("uses TLS"),
                     HasSubstr("Log in first: `mpsctl login " + Server()))));
  Serve(grpc::experimental::LocalServerCredentials(LOCAL_TCP));
  EXPECT_THAT(RunBare({"--server", Server(), "list"}),
              Fails(8, HasSubstr("Log in first")));
}

TEST_F(RefusalTest, TheDaemonIsNoLongerThere) {
  ASSERT_EQ(Login({"--name", "studio"}).code, 0);
  daemon_->Stop();
  EXPECT_THAT(RunBare({"list"}), Fails(3, AllOf(HasSubstr("Connection refused"),
                                                HasSubstr("--listen"))));
}

TEST_F(RefusalTest, ASocketHasNone) {
  EXPECT_FALSE(WhyUnreachable(SocketAddress(), absl::Now()).has_value());
  EXPECT_EQ(HowToBeLetIn(SocketAddress(), StatusCode::UNAUTHENTICATED), "");
}

}  // namespace
}  // namespace mpsd::client
