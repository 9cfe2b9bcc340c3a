// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/entrances.h"

#include <unistd.h>

#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status_macros.h"
#include "server/rpc/convert.h"

namespace mpsd::rpc {
namespace {

using grpc::experimental::ExternalConnectionAcceptor;

// The number of concurrent look-ups of accounts' names.
constexpr int kLookups = 16;

using Refused = std::function<void(std::string_view, const absl::Status&)>;
// Returns OK, or why the call is refused.
using Look = std::function<absl::Status(const Metadata& metadata,
                                        grpc::AuthContext& connection)>;
using Entrance = std::unique_ptr<ExternalConnectionAcceptor>;

std::string_view PathOf(const Metadata& metadata) {
  const auto path = metadata.find(":path");
  if (path == metadata.end()) return "";
  return {path->second.data(), path->second.size()};
}

// The kernel says "nobody" for every account of another user namespace, so that
// several people would be one user.
bool IsOverflowUser(uid_t uid) {
  return uid == 65534 || uid == static_cast<uid_t>(-2) ||
         uid == static_cast<uid_t>(-1);
}

// Admits or refuses a call. gRPC calls Process on its own threads.
class Processor final : public grpc::AuthMetadataProcessor {
 public:
  Processor(Look look, Refused refused)
      : look_(std::move(look)), refused_(std::move(refused)) {}
  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata,
                       grpc::AuthContext* connection, OutputMetadata*,
                       OutputMetadata*) override {
    const absl::Status known = look_(metadata, *connection);
    if (known.ok()) return ToGrpc(known);
    const std::string_view path = PathOf(metadata);
    if (path == kHealthCheck) return ToGrpc(absl::OkStatus());
    refused_(path, known);
    return ToGrpc(known);
  }

 private:
  const Look look_;
  const Refused refused_;
};

// The account to which an entrance belongs. Thread-safe.
class Account {
 public:
  void Assign(uid_t uid, const std::string& user) {
    absl::MutexLock lock(&mutex_);
    uid_ = uid;
    user_ = user;
  }
  void Note(grpc::AuthContext& connection) const {
    absl::MutexLock lock(&mutex_);
    NoteAccount(uid_, user_, connection);
  }

 private:
  mutable absl::Mutex mutex_;
  uid_t uid_ ABSL_GUARDED_BY(mutex_) = static_cast<uid_t>(-1);
  std::string user_ ABSL_GUARDED_BY(mutex_);
};

std::shared_ptr<grpc::ServerCredentials> OfSocket() {
  return grpc::experimental::LocalServerCredentials(UDS);
}

}  // namespace

class Entrances::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(Options options, grpc::ServerBuilder& builder)
      : options_(std::move(options)) {
    for (int i = 0; i <= options_.accounts; ++i) {
      auto account = std::make_shared<Account>();
      const Look look = [account](const Metadata&,
                                  grpc::AuthContext& connection) {
        account->Note(connection);
        return absl::OkStatus();
      };
      slots_.push_back({std::move(account), Add(builder, look, OfSocket())});
    }
    full_ = AddRefusing(builder,
                        absl::ResourceExhaustedError(absl::StrCat(
                            options_.accounts,
                            " accounts of this machine have used mpsd since it "
                            "started, and it distinguishes no more: restart "
                            "mpsd, or use a port with a token")));
    overflow_ = AddRefusing(
        builder, absl::UnauthenticatedError(
                     "the kernel does not say whose process this is (its "
                     "account is \"nobody\"); use a port with a token"));
    if (options_.port == nullptr) return;
    port_ = Add(
        builder,
        [known = options_.known](const Metadata& metadata,
                                 grpc::AuthContext& connection) {
          return CallerOf(connection, metadata, known).status();
        },
        options_.port);
  }

  // The daemon's own account has the first slot: the watchdog never waits for a
  // name.
  absl::Status AssignOwner() {
    const uid_t owner = options_.known.roles.owner;
    ASSIGN_OR_RETURN(std::string user, options_.name(owner));
    absl::MutexLock lock(&mutex_);
    SlotOf(owner, user);
    return absl::OkStatus();
  }

  void Take(const listener::Accepted& accepted) {
    if (!accepted.peer) return HandOver(accepted, port_);
    const uid_t uid = accepted.peer->uid;
    if (IsOverflowUser(uid) && uid != options_.known.roles.owner) {
      return HandOver(accepted, overflow_);
    }
    {
      absl::MutexLock lock(&mutex_);
      const auto found = names_.find(uid);
      // An account without a name may get one.
      const bool is_named =
          found != names_.end() && (uid == options_.known.roles.owner ||
                                    found->second != access::UserOf(uid, ""));
      if (is_named) {
        HandOverLocked(accepted, SlotOf(uid, found->second));
        return;
      }
      if (lookups_ >= kLookups) {
        options_.log(absl::StrCat("a connection of the account ", uid,
                                  " was refused: the names of ", lookups_,
                                  " accounts are being looked up already"));
        close(accepted.fd);
        return;
      }
      ++lookups_;
    }
    std::thread([core = shared_from_this(), accepted] {
      core->LookUp(accepted);
    }).detach();
  }

  void Close() {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }

 private:
  struct Slot {
    std::shared_ptr<Account> account;
    Entrance entrance;
  };

  Entrance Add(grpc::ServerBuilder& builder, Look look,
               const std::shared_ptr<grpc::ServerCredentials>& credentials) {
    credentials->SetAuthMetadataProcessor(
        std::make_shared<Processor>(std::move(look), options_.refused));
    return builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        credentials);
  }

  Entrance AddRefusing(grpc::ServerBuilder& builder, const absl::Status& why) {
    return Add(
        builder, [why](const Metadata&, grpc::AuthContext&) { return why; },
        OfSocket());
  }

  void LookUp(const listener::Accepted& accepted) {
    const uid_t uid = accepted.peer->uid;
    const absl::StatusOr<std::string> user = options_.name(uid);
    absl::MutexLock lock(&mutex_);
    --lookups_;
    if (user.ok()) {
      HandOverLocked(accepted, SlotOf(uid, *user));
      return;
    }
    options_.log(
        absl::StrCat("a connection was refused: ", user.status().message()));
    close(accepted.fd);
  }

  // The account's entrance; the refusing one if every entrance belongs to
  // another account.
  const Entrance& SlotOf(uid_t uid, const std::string& user)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    auto [found, is_new] = index_.try_emplace(uid, index_.size());
    if (found->second >= slots_.size()) {
      index_.erase(found);
      options_.log(absl::StrCat(
          "calls of the account ", user, " (", uid,
          ") are refused: ", options_.accounts,
          " other accounts have used the socket since mpsd started, and it "
          "distinguishes no more; restart mpsd, or hand out tokens"));
      return full_;
    }
    Slot& slot = slots_[found->second];
    std::string& name = names_[uid];
    if (is_new || name != user) slot.account->Assign(uid, user);
    name = user;
    return slot.entrance;
  }

  void HandOver(const listener::Accepted& accepted, const Entrance& entrance) {
    absl::MutexLock lock(&mutex_);
    HandOverLocked(accepted, entrance);
  }

  void HandOverLocked(const listener::Accepted& accepted,
                      const Entrance& entrance)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (closed_ || entrance == nullptr) {
      close(accepted.fd);
      return;
    }
    ExternalConnectionAcceptor::NewConnectionParameters connection;
    // Newer gRPC drops a connection without its listener's descriptor.
    connection.listener_fd = accepted.socket;
    connection.fd = accepted.fd;
    entrance->HandleNewConnection(&connection);
  }

  const Options options_;
  std::vector<Slot> slots_;
  Entrance full_;
  Entrance overflow_;
  Entrance port_;  // null: no port is served
  absl::Mutex mutex_;
  std::map<uid_t, size_t> index_ ABSL_GUARDED_BY(mutex_);  // into slots_
  std::map<uid_t, std::string> names_ ABSL_GUARDED_BY(mutex_);
  int lookups_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::StatusOr<std::unique_ptr<Entrances>> Entrances::Open(
    Options options, grpc::ServerBuilder& builder) {
  auto core = std::make_shared<Core>(std::move(options), builder);
  RETURN_IF_ERROR(core->AssignOwner());
  return absl::WrapUnique(new Entrances(std::move(core)));
}

Entrances::~Entrances() { Close(); }

void Entrances::Take(const listener::Accepted& accepted) {
  core_->Take(accepted);
}

void Entrances::Close() { core_->Close(); }

}  // namespace mpsd::rpc
