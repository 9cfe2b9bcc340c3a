// SPDX-License-Identifier: Apache-2.0
#include "server/token_door.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "grpcpp/grpcpp.h"
#include "mpsd/v1/access.grpc.pb.h"
#include "server/access/account_name.h"
#include "server/access/audit_trail.h"
#include "server/access/token_book.h"
#include "server/rpc/access_calls.h"
#include "server/rpc/audit_detail.h"
#include "server/state_dir.h"
#include "server/store/audit_store.h"
#include "server/store/database.h"
#include "server/store/token_store.h"

namespace mpsd {
namespace fs = std::filesystem;
namespace {

constexpr absl::Duration kRetryInterval = absl::Milliseconds(100);
constexpr std::chrono::seconds kCallPatience(30);

// What the daemon said, in words where it said nothing.
absl::Status FromGrpc(const grpc::Status& status) {
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  if (code == absl::StatusCode::kDeadlineExceeded) {
    return absl::DeadlineExceededError(
        "the daemon did not answer in time; what was asked for may have "
        "happened: look with `mpsd token list`");
  }
  if (code == absl::StatusCode::kUnimplemented) {
    return absl::UnimplementedError(
        "the daemon that runs knows no tokens: it is another version of mpsd; "
        "start it anew");
  }
  return absl::Status(code, status.error_message());
}

// Over the socket of a running daemon.
class SocketDoor final : public TokenDoor {
 public:
  explicit SocketDoor(const fs::path& socket)
      : stub_(v1::AccessService::NewStub(
            grpc::CreateChannel(absl::StrCat("unix:", socket.string()),
                                grpc::InsecureChannelCredentials()))) {}

  absl::Status Create(const v1::CreateTokenRequest& request,
                      v1::CreateTokenResponse& response) override {
    return Call(&v1::AccessService::Stub::CreateToken, request, response);
  }
  absl::Status List(v1::ListTokensResponse& response) override {
    return Call(&v1::AccessService::Stub::ListTokens, v1::ListTokensRequest(),
                response);
  }
  absl::Status Revoke(const v1::RevokeTokenRequest& request,
                      v1::RevokeTokenResponse& response) override {
    return Call(&v1::AccessService::Stub::RevokeToken, request, response);
  }

 private:
  // `method`: a member function of the stub.
  template <typename Method, typename Request, typename Response>
  absl::Status Call(Method method, const Request& request, Response& response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kCallPatience);
    return FromGrpc(((*stub_).*method)(&context, request, &response));
  }

  const std::unique_ptr<v1::AccessService::Stub> stub_;
};

// The database of a daemon that does not run.
class DatabaseDoor final : public TokenDoor {
 public:
  // Unavailable while another process holds the folder's lock.
  static absl::StatusOr<std::unique_ptr<TokenDoor>> Open(const Config& config) {
    auto door = std::unique_ptr<DatabaseDoor>(new DatabaseDoor);
    absl::StatusOr<std::string> user = access::AccountName(geteuid());
    if (!user.ok()) return user.status();
    door->caller_ = {*user, access::Role::kAdmin, access::Way::kSocket,
                     absl::StrCat("uid ", geteuid()), "this machine"};
    absl::StatusOr<std::unique_ptr<StateDir>> lock =
        StateDir::Open(config.state_dir);
    if (!lock.ok()) return lock.status();
    door->lock_ = *std::move(lock);
    absl::StatusOr<std::unique_ptr<store::Database>> database =
        store::Database::Open(config.state_dir / "mpsd.db");
    if (!database.ok()) return database.status();
    door->database_ = *std::move(database);
    absl::Status opened = door->OpenBooks(config);
    if (!opened.ok()) return opened;
    return door;
  }

  absl::Status Create(const v1::CreateTokenRequest& request,
                      v1::CreateTokenResponse& response) override {
    return Audited("AccessService.CreateToken", rpc::AuditDetail(request), [&] {
      return rpc::CreateToken(*tokens_, caller_, request,
                              base::Clock::Real().Now(), response);
    });
  }
  absl::Status List(v1::ListTokensResponse& response) override {
    return rpc::ListTokens(*tokens_, caller_, response);
  }
  absl::Status Revoke(const v1::RevokeTokenRequest& request,
                      v1::RevokeTokenResponse& response) override {
    return Audited("AccessService.RevokeToken", rpc::AuditDetail(request), [&] {
      return rpc::RevokeToken(*tokens_, caller_, request, response);
    });
  }

 private:
  DatabaseDoor() = default;

  absl::Status OpenBooks(const Config& config) {
    audit_store_ = std::make_unique<store::AuditStore>(*database_);
    access::AuditTrail::Options audit;
    audit.keep = config.audit_keep;
    audit_ = std::make_unique<access::AuditTrail>(
        std::move(audit), *audit_store_, base::Clock::Real());
    token_store_ = std::make_unique<store::TokenStore>(*database_);
    absl::StatusOr<std::unique_ptr<access::TokenBook>> tokens =
        access::TokenBook::Open(*token_store_, base::Clock::Real(),
                                access::TokenBook::SystemOptions());
    if (!tokens.ok()) return tokens.status();
    tokens_ = *std::move(tokens);
    return absl::OkStatus();
  }

  // As a running daemon notes its calls.
  template <typename Work>
  absl::Status Audited(const std::string& method, const std::string& detail,
                       const Work& work) {
    const absl::StatusOr<int64_t> entry =
        audit_->Begin({caller_, method, "", detail});
    if (!entry.ok()) return entry.status();
    const absl::Status result = work();
    audit_->End(*entry, result, "");
    return result;
  }

  // Members are created in this order; each may use those above it.
  access::Caller caller_;
  std::unique_ptr<StateDir> lock_;
  std::unique_ptr<store::Database> database_;
  std::unique_ptr<store::AuditStore> audit_store_;
  std::unique_ptr<access::AuditTrail> audit_;
  std::unique_ptr<store::TokenStore> token_store_;
  std::unique_ptr<access::TokenBook> tokens_;
};

// Whether a daemon accepts connections at the socket: 0, or why not as errno.
int TryConnect(const fs::path& socket_path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = socket_path.string();
  if (path.size() >= sizeof(address.sun_path)) return ENAMETOOLONG;
  memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) return errno;
  const int error = connect(fd, reinterpret_cast<const sockaddr*>(&address),
                            sizeof(address)) == 0
                        ? 0
                        : errno;
  close(fd);
  return error;
}

// A database that another account opens has files that the daemon cannot use,
// and a folder that is not there is most likely not the one that is meant.
absl::Status CheckFolder(const fs::path& folder) {
  struct stat info;
  if (stat(folder.c_str(), &info) != 0) {
    if (errno != ENOENT) return base::ErrnoStatus(errno, folder.string());
    return absl::NotFoundError(absl::StrCat(
        "there is no state folder at ", folder.string(),
        ": name the daemon's with --state-dir, or start mpsd once"));
  }
  if (info.st_uid == geteuid()) return absl::OkStatus();
  const absl::StatusOr<std::string> owner = access::AccountName(info.st_uid);
  return absl::PermissionDeniedError(absl::StrCat(
      folder.string(), " belongs to ",
      owner.ok() ? *owner : absl::StrCat("the account ", info.st_uid),
      ", and no daemon runs there: start it, or run this as that account "
      "(sudo -u)"));
}

// One try. Unavailable where another one may succeed.
absl::StatusOr<std::unique_ptr<TokenDoor>> TryOpen(const Config& config) {
  const fs::path socket = config.SocketPath();
  const int error = TryConnect(socket);
  if (error == 0) return std::make_unique<SocketDoor>(socket);
  if (error == EACCES || error == EPERM) {
    return absl::PermissionDeniedError(
        absl::StrCat("this account may not use ", socket.string(),
                     ": run this as the daemon's account or as root"));
  }
  if (absl::Status s = CheckFolder(config.state_dir); !s.ok()) return s;
  return DatabaseDoor::Open(config);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenDoor>> OpenTokenDoor(
    const Config& config, absl::Duration patience) {
  const base::Clock& clock = base::Clock::Real();
  const absl::Duration deadline = clock.Monotonic() + patience;
  while (true) {
    absl::StatusOr<std::unique_ptr<TokenDoor>> door = TryOpen(config);
    if (!absl::IsUnavailable(door.status())) return door;
    if (clock.Monotonic() < deadline) {
      absl::SleepFor(kRetryInterval);
      continue;
    }
    return absl::UnavailableError(
        absl::StrCat(door.status().message(), " (nobody answers at its socket ",
                     config.SocketPath().string(), ")"));
  }
}

}  // namespace mpsd
