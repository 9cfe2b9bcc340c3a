// SPDX-License-Identifier: Apache-2.0
#include "client/console.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <sstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/client/client_fixture.h"
#include "tests/client/port_fixture.h"

namespace mpsd::client {
namespace {

// --- console -----------------------------------------------------------------

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
  EXPECT_NE(text.find("expected ssh://[USER@]HOST"), std::string::npos) << text;
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

// --- terminal ----------------------------------------------------------------

TEST(IsUtf8LocaleTest, BySpelling) {
  for (const char* name : {"en_US.UTF-8", "C.utf8", "UTF-8", "de_DE.utf-8@x"}) {
    EXPECT_TRUE(IsUtf8Locale(nullptr, nullptr, name)) << name;
  }
  for (const char* name : {"C", "POSIX", "en_US.ISO-8859-1", "utf"}) {
    EXPECT_FALSE(IsUtf8Locale(nullptr, nullptr, name)) << name;
  }
}

TEST(IsUtf8LocaleTest, TheFirstThatIsSetDecides) {
  EXPECT_FALSE(IsUtf8Locale("C", "C.UTF-8", "C.UTF-8"));
  EXPECT_TRUE(IsUtf8Locale("", "C.UTF-8", "C"));
  EXPECT_FALSE(IsUtf8Locale(nullptr, "C", "C.UTF-8"));
  EXPECT_TRUE(IsUtf8Locale(nullptr, "", "C.UTF-8"));
}

TEST(IsUtf8LocaleTest, AsciiWithoutAny) {
  EXPECT_FALSE(IsUtf8Locale(nullptr, nullptr, nullptr));
  EXPECT_FALSE(IsUtf8Locale("", "", ""));
}

// --- interrupt ---------------------------------------------------------------

TEST(InterruptTest, WithoutListenerNobodyIsThere) {
  Interrupt interrupt;
  EXPECT_FALSE(interrupt.Raise());
  EXPECT_FALSE(interrupt.raised());
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

TEST(InterruptTest, AListenerThatIsGoneIsNotWoken) {
  Interrupt interrupt;
  int woken = 0;
  {
    Interrupt::Listener listener(&interrupt, [&] { ++woken; });
  }
  EXPECT_FALSE(interrupt.Raise());
  EXPECT_EQ(woken, 0);
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

TEST(InterruptTest, NullIsNeverRaised) {
  Interrupt::Listener listener(nullptr, [] { FAIL(); });
  EXPECT_FALSE(listener.raised());
}

// --- prompt ------------------------------------------------------------------

// A terminal whose other end the test types on.
class PromptTest : public testing::Test {
 protected:
  PromptTest() {
    master_ = posix_openpt(O_RDWR | O_NOCTTY);
    EXPECT_EQ(grantpt(master_), 0);
    EXPECT_EQ(unlockpt(master_), 0);
    device_ = ptsname(master_);
    // Keeps the terminal's settings while nobody else has it open.
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
  // Types once the question stands there and the echo is off.
  absl::StatusOr<std::string> AskHidden(const std::string& keys) {
    const tcflag_t before = Flags();
    std::thread user([&] {
      ShownUntil("Token: ");
      while ((Flags() & ECHO) != 0) absl::SleepFor(absl::Milliseconds(1));
      Type(keys);
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
}

TEST_F(PromptTest, ASecretIsNotShown) {
  EXPECT_EQ(AskHidden("secret\n").value(), "secret");
  const std::string shown = ShownUntil("\n");
  EXPECT_EQ(shown.find("secret"), std::string::npos);
}

TEST_F(PromptTest, ASecretCanBeCorrected) {
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
}

TEST_F(PromptTest, CtrlCAndCtrlDEndIt) {
  EXPECT_TRUE(absl::IsCancelled(AskHidden("sec\x03").status()));
  EXPECT_TRUE(absl::IsCancelled(AskHidden("\x04").status()));
}

TEST_F(PromptTest, AnEndlessLineTakesNoMemory) {
  std::string keys;
  for (int i = 0; i < 30; ++i) keys += std::string(1000, 'a');
  // In pieces that a terminal holds.
  std::thread user([&] {
    ShownUntil("Token: ");
    while ((Flags() & ECHO) != 0) absl::SleepFor(absl::Milliseconds(1));
    for (size_t at = 0; at < keys.size(); at += 1000) {
      Type(keys.substr(at, 1000));
      absl::SleepFor(absl::Milliseconds(2));
    }
    Type("\n");
  });
  const auto line = Ask("Token: ", Echo::kOff, device_.c_str());
  user.join();
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

TEST_F(PromptTest, AQuestionCannotSteerTheTerminal) {
  Type("no\n");
  ASSERT_TRUE(Ask("a\x1b[2Jb? ", Echo::kOn, device_.c_str()).ok());
  EXPECT_EQ(ShownUntil("b? ").find('\x1b'), std::string::npos);
}

TEST_F(PromptTest, WithoutATerminal) {
  for (const char* device : {"/dev/null", "/nowhere/tty"}) {
    EXPECT_EQ(Ask("?", Echo::kOn, device).status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

// --- progress line -----------------------------------------------------------

TEST(StepTextTest, WhatIsKnown) {
  v1::Progress progress;
  progress.set_step(1);
  progress.set_total_steps(20);
  progress.set_loss(1.23456);
  progress.set_eta_seconds(80);
  EXPECT_EQ(StepText(progress), "step 1/20  loss 1.2346  ETA 1m20s");
  progress.set_tokens_per_second(1234.4);
  EXPECT_EQ(StepText(progress),
            "step 1/20  loss 1.2346  1,234 tok/s  ETA 1m20s");
  progress.set_step(20);
  EXPECT_EQ(StepText(progress), "step 20/20  loss 1.2346  1,234 tok/s");
}

TEST(StepTextTest, ASparklineWhereTheWidthAllows) {
  v1::Progress progress;
  progress.set_step(20);
  progress.set_total_steps(20);
  progress.set_loss(1);
  const std::vector<double> losses = {7, 6, 5, 4, 3, 2, 1, 0};
  Terminal terminal;
  // The text has 23 columns, the percentage and the shortest bar 13.
  for (const auto& [columns, text] :
       {std::pair{80, "step 20/20  loss 1.0000 █▇▆▅▄▃▂▁"},
        std::pair{41, "step 20/20  loss 1.0000 █▆▃▁"},
        std::pair{40, "step 20/20  loss 1.0000"},
        std::pair{1, "step 20/20  loss 1.0000"}}) {
    terminal.columns = [columns = columns] { return columns; };
    EXPECT_EQ(StepText(progress, losses, terminal), text) << columns;
  }
  terminal.utf8 = false;
  terminal.columns = [] { return 80; };
  EXPECT_EQ(StepText(progress, losses, terminal),
            "step 20/20  loss 1.0000 #*+=-:._");
  EXPECT_EQ(StepText(progress, {3, 2, 1}, terminal), "step 20/20  loss 1.0000");
}

class ProgressLineTest : public testing::Test {
 protected:
  std::string Draw(bool is_tty, bool json) {
    std::ostringstream out;
    Terminal terminal;
    terminal.is_tty = is_tty;
    terminal.columns = [] { return 18; };
    Connection nowhere({"unix:/nowhere", "/nowhere"});
    const Console console{out, out, terminal, nowhere, json};
    {
      ProgressLine line(console);
      line.Draw(1, 4, "x");
    }
    return out.str();
  }
};

TEST_F(ProgressLineTest, RedrawsInPlaceAndLeavesNothing) {
  EXPECT_EQ(Draw(true, false),
            "\r 25% ━━──────── x\x1b[K"
            "\r\x1b[K");
}

TEST_F(ProgressLineTest, ALineAboveIsALineWithoutABar) {
  std::ostringstream out;
  Terminal terminal;
  Connection nowhere({"unix:/nowhere", "/nowhere"});
  const Console console{out, out, terminal, nowhere, false};
  ProgressLine line(console);
  line.Draw(1, 4, "x");
  line.PrintAbove("text");
  EXPECT_EQ(out.str(), "text\n");
}

TEST_F(ProgressLineTest, SilentInAPipeAndInJson) {
  EXPECT_EQ(Draw(false, false), "");
  EXPECT_EQ(Draw(true, true), "");
}

// --- exit code ---------------------------------------------------------------

TEST(ExitCodeTest, OfAStatus) {
  const std::pair<grpc::StatusCode, ExitCode> table[] = {
      {grpc::StatusCode::OK, ExitCode::kOk},
      {grpc::StatusCode::UNAVAILABLE, ExitCode::kUnreachable},
      {grpc::StatusCode::DEADLINE_EXCEEDED, ExitCode::kTryAgain},
      {grpc::StatusCode::NOT_FOUND, ExitCode::kNotFound},
      {grpc::StatusCode::UNAUTHENTICATED, ExitCode::kNotLetIn},
      {grpc::StatusCode::PERMISSION_DENIED, ExitCode::kNotLetIn},
      {grpc::StatusCode::INVALID_ARGUMENT, ExitCode::kBadInput},
      {grpc::StatusCode::FAILED_PRECONDITION, ExitCode::kBadInput},
      {grpc::StatusCode::ALREADY_EXISTS, ExitCode::kBadInput},
      {grpc::StatusCode::RESOURCE_EXHAUSTED, ExitCode::kOther},
      {grpc::StatusCode::INTERNAL, ExitCode::kOther},
  };
  for (const auto& [status, code] : table) {
    EXPECT_EQ(ForStatus(grpc::Status(status, "")), code) << status;
  }
}

TEST(ExitCodeTest, OfATunnel) {
  EXPECT_EQ(ForTunnel(absl::UnavailableError("")), ExitCode::kUnreachable);
  EXPECT_EQ(ForTunnel(absl::InvalidArgumentError("")), ExitCode::kBadInput);
  EXPECT_EQ(ForTunnel(absl::InternalError("")), ExitCode::kOther);
  for (const auto code : {grpc::StatusCode::PERMISSION_DENIED,
                          grpc::StatusCode::UNAUTHENTICATED}) {
    EXPECT_EQ(ForTunnel(absl::Status(static_cast<absl::StatusCode>(code), "")),
              ForStatus(grpc::Status(code, "")))
        << "refused is refused, whoever does it";
  }
}

TEST(ExitCodeTest, OfAJob) {
  EXPECT_EQ(ForJobState(v1::JOB_STATE_SUCCEEDED), ExitCode::kOk);
  EXPECT_EQ(ForJobState(v1::JOB_STATE_FAILED), ExitCode::kJobFailed);
  EXPECT_EQ(ForJobState(v1::JOB_STATE_CANCELLED), ExitCode::kJobCancelled);
  EXPECT_EQ(ForJobState(v1::JOB_STATE_QUEUED), ExitCode::kOk);
}

TEST(ExitCodeTest, OfAVerdict) {
  EXPECT_EQ(ForVerdict(v1::VERDICT_PASS), ExitCode::kOk);
  EXPECT_EQ(ForVerdict(v1::VERDICT_WARN), ExitCode::kVerdictWarn);
  EXPECT_EQ(ForVerdict(v1::VERDICT_FAIL), ExitCode::kVerdictFail);
  EXPECT_EQ(ForVerdict(v1::VERDICT_UNSPECIFIED), ExitCode::kOk);
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

// --- refusal -----------------------------------------------------------------

using testing::HasSubstr;

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
  const Result result =
      AfterLogin(TlsServer(another.Issue("IP:127.0.0.1"), another.pem()));
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.err,
              HasSubstr("is not of the authority that the context studio "
                        "trusts: its fingerprint is " +
                        FingerprintOf(another.pem()) + ", expected " +
                        FingerprintOf(authority_.pem())));
  EXPECT_THAT(result.err, HasSubstr("somebody is between you and mpsd"));
  EXPECT_TRUE(data().authorizations.empty());
}

TEST_F(RefusalTest, AnExpiredCertificate) {
  const Result result = AfterLogin(
      TlsServer(authority_.Issue("IP:127.0.0.1", -1), authority_.pem()));
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.err, HasSubstr("expired on "));
}

TEST_F(RefusalTest, AnotherName) {
  const Result result =
      AfterLogin(TlsServer(authority_.Issue("DNS:attic"), authority_.pem()));
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.err, HasSubstr("is not for '127.0.0.1', but for attic"));
}

TEST_F(RefusalTest, AServerThatSpeaksTlsNoMore) {
  const Result result =
      AfterLogin(grpc::experimental::LocalServerCredentials(LOCAL_TCP));
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("does not speak TLS 1.3"));
}

TEST_F(RefusalTest, ATokenThatWasRevoked) {
  ASSERT_EQ(Login({"--name", "studio"}).code, 0);
  data().authorization = "Bearer another";
  const Result result = RunBare({"list"});
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.err, HasSubstr("The token of the context studio has "
                                    "expired or was revoked"));
  EXPECT_THAT(result.err,
              HasSubstr("`mpsctl login " + Server() + " --name studio`"));
}

TEST_F(RefusalTest, AStreamWhoseTokenIsRevokedIsNotTriedAgain) {
  ASSERT_EQ(Login({"--name", "studio"}).code, 0);
  AddJob(kId, v1::JOB_STATE_RUNNING);
  AddState(kId, v1::JOB_STATE_RUNNING);
  data().fail["Watch"] =
      grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "the token was revoked");
  const Result result = RunBare({"watch", kId});
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.err, HasSubstr("the token was revoked"));
  EXPECT_THAT(result.err, HasSubstr("ask an admin for a new one"));
  EXPECT_EQ(data().watched.size(), 1);
  EXPECT_EQ(sleeps_, 0);
}

TEST_F(RefusalTest, ARoleThatMayNot) {
  ASSERT_EQ(Login({"--name", "studio"}).code, 0);
  data().fail["List"] =
      grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "needs the role admin");
  const Result result = RunBare({"list"});
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.err, HasSubstr("needs the role admin"));
  EXPECT_THAT(result.err, HasSubstr("`mpsctl info` shows who you are"));
}

TEST_F(RefusalTest, NoLoginYet) {
  // The port of a daemon with TLS on this machine, taken for one without.
  const Result tls = RunBare({"--server", Server(), "list"});
  EXPECT_EQ(tls.code, 8);
  EXPECT_THAT(tls.err, HasSubstr("speaks TLS"));
  EXPECT_THAT(tls.err, HasSubstr("Log in first: `mpsctl login " + Server()));
  Serve(grpc::experimental::LocalServerCredentials(LOCAL_TCP));
  const Result tokenless = RunBare({"--server", Server(), "list"});
  EXPECT_EQ(tokenless.code, 8);
  EXPECT_THAT(tokenless.err, HasSubstr("Log in first"));
}

TEST_F(RefusalTest, NobodyThereAnyMore) {
  ASSERT_EQ(Login({"--name", "studio"}).code, 0);
  daemon_->Stop();
  const Result result = RunBare({"list"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("Connection refused"));
  EXPECT_THAT(result.err, HasSubstr("--listen"));
}

TEST_F(RefusalTest, ASocketHasNone) {
  EXPECT_FALSE(WhyUnreachable(SocketAddress(), absl::Now()).has_value());
  EXPECT_EQ(HowToBeLetIn(SocketAddress(), grpc::StatusCode::UNAUTHENTICATED),
            "");
}

}  // namespace
}  // namespace mpsd::client
