// SPDX-License-Identifier: Apache-2.0
#include "client/connection.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <chrono>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mpsd::client {
namespace {

// Gives the token to every call of a channel: gRPC asks this object for each
// one, so that no verb can forget the token.
class Bearer final : public grpc::MetadataCredentialsPlugin {
 public:
  explicit Bearer(const std::string& token)
      : value_(absl::StrCat("Bearer ", token)) {}
  bool IsBlocking() const override { return false; }
  const char* GetType() const override { return "mpsd-token"; }
  grpc::Status GetMetadata(
      grpc::string_ref, grpc::string_ref, const grpc::AuthContext&,
      std::multimap<std::string, std::string>* metadata) override {
    metadata->emplace("authorization", value_);
    return grpc::Status::OK;
  }

 private:
  const std::string value_;
};

std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(
    const Address& address) {
  if (!address.socket_path.empty() || address.tunnel != nullptr) {
    return grpc::InsecureChannelCredentials();
  }
  const Credentials& own = address.credentials;
  std::shared_ptr<grpc::ChannelCredentials> channel;
  // The least that a connection must be for gRPC to send a token over it.
  grpc_security_level level = GRPC_PRIVACY_AND_INTEGRITY;
  if (own.tls) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = own.roots_pem;
    channel = grpc::SslCredentials(options);
  } else {
    // Looks at the connection's address, not at the host's name, and sends
    // nothing to another machine.
    channel = grpc::experimental::LocalCredentials(LOCAL_TCP);
    level = GRPC_SECURITY_NONE;
  }
  if (own.token.empty()) return channel;
  return grpc::CompositeChannelCredentials(
      channel, grpc::experimental::MetadataCredentialsFromPlugin(
                   std::make_unique<Bearer>(own.token), level));
}

}  // namespace

Connection::Connection(Address address, Interrupt* interrupt)
    : address_(std::move(address)), interrupt_(interrupt) {
  MakeChannel();
}

absl::Status Connection::Connect() {
  if (address_.tunnel == nullptr) return absl::OkStatus();
  const Interrupt::Listener listener(
      interrupt_, [tunnel = address_.tunnel] { tunnel->Break(); });
  const absl::Status opened = address_.tunnel->Open();
  MakeChannel();
  return opened;
}

absl::Status Connection::tunnel_status() const {
  return address_.tunnel == nullptr ? absl::OkStatus()
                                    : address_.tunnel->status();
}

void Connection::Reset() {
  // A tunnel that does not open leads nowhere: the next call fails.
  if (address_.tunnel != nullptr) {
    Connect().IgnoreError();
  } else {
    MakeChannel();
  }
}

void Connection::MakeChannel() {
  grpc::ChannelArguments arguments;
  // Proxies are for the web. A subchannel that is shared with an earlier
  // connection would keep that connection's back-off.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(64 << 20);
  // Ends a call without a deadline once the daemon's machine is gone.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  auto channel = grpc::CreateCustomChannel(
      address_.tunnel == nullptr ? address_.target : address_.tunnel->target(),
      CredentialsOf(address_), arguments);
  jobs_ = v1::JobService::NewStub(channel);
  artifacts_ = v1::ArtifactService::NewStub(channel);
  daemon_ = v1::DaemonService::NewStub(channel);
  access_ = v1::AccessService::NewStub(channel);
  models_ = v1::ModelService::NewStub(channel);
  runbook_ = v1::RunbookService::NewStub(channel);
}

void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(30));
}

}  // namespace mpsd::client
