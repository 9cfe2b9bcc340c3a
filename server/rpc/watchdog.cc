// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/watchdog.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace mpsd::rpc {
namespace {

using Clock = std::chrono::steady_clock;

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A new connection for each check: gRPC would otherwise reuse a connection
  // that was accepted while the server could still accept.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

}  // namespace

absl::Status AskHealth(const std::string& address, absl::Duration patience,
                       grpc::ClientContext& context) {
  grpc::GenericStub stub(Connect(address));
  // Within the patience a refused connection is tried again: a backlog that is
  // full for a moment does not count as unresponsive.
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoMilliseconds(patience));
  const grpc::ByteBuffer question(nullptr, 0);
  grpc::ByteBuffer answer;
  absl::Status status;
  absl::Notification answered;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", grpc::StubOptions(),
                 &question, &answer, [&](const grpc::Status& ended) {
                   status = absl::Status(
                       static_cast<absl::StatusCode>(ended.error_code()),
                       ended.error_message());
                   answered.Notify();
                 });
  answered.WaitForNotification();
  return status;
}

Watchdog::Watchdog(Options options)
    : options_(std::move(options)), thread_([this] { Run(); }) {}

Watchdog::~Watchdog() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    if (asking_ != nullptr) asking_->TryCancel();
  }
  thread_.join();
}

void Watchdog::Run() {
  int unanswered = 0;
  while (Sleep()) {
    const auto asked = Clock::now();
    const absl::Status health = Ask();
    const absl::Duration took = absl::FromChrono(Clock::now() - asked);
    if (health.ok()) unanswered = 0;
    // Does not count a check during which the process was stopped or the
    // machine slept: the watchdog itself slept through the answer.
    if (health.ok() || took > 2 * options_.patience) continue;
    if (++unanswered < options_.tries) continue;
    return options_.deaf(absl::StrCat("mpsd does not answer at ",
                                      options_.address, ", tried ", unanswered,
                                      " times in a row: ", health.message()));
  }
}

absl::Status Watchdog::Ask() {
  grpc::ClientContext context;
  {
    absl::MutexLock lock(&mutex_);
    asking_ = &context;
    // A destructor that came before this lock found no check to cancel.
    if (stopping_) context.TryCancel();
  }
  const absl::Status health =
      AskHealth(options_.address, options_.patience, context);
  absl::MutexLock lock(&mutex_);
  asking_ = nullptr;
  // The watchdog's own end cancelled the check.
  return stopping_ ? absl::OkStatus() : health;
}

bool Watchdog::Sleep() {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&stopping_), options_.interval);
  return !stopping_;
}

}  // namespace mpsd::rpc
