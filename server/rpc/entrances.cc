// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/entrances.h"

#include <unistd.h>

#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "server/rpc/connection_notes.h"
#include "server/rpc/status.h"

namespace mpsd::rpc {
namespace {

using grpc::experimental::ExternalConnectionAcceptor;

constexpr char kHealthCheck[] = "/grpc.health.v1.Health/Check";
// The number of concurrent look-ups of accounts' names.
constexpr int kLookups = 16;

using Refused = std::function<void(std::string_view, const absl::Status&)>;

std::string_view PathOf(const Metadata& metadata) {
  const auto path = metadata.find(":path");
  if (path == metadata.end()) return "";
  return {path->second.data(), path->second.size()};
}

// The kernel says "nobody" for every account of another user namespace, so that
// several people would be one user.
bool IsNobody(uid_t uid) {
  return uid == 65534 || uid == static_cast<uid_t>(-2) ||
         uid == static_cast<uid_t>(-1);
}

// Admits or refuses a call. gRPC calls Process on its own threads.
class Processor : public grpc::AuthMetadataProcessor {
 public:
  explicit Processor(Refused refused) : refused_(std::move(refused)) {}
  bool IsBlocking() const final { return false; }
  grpc::Status Process(const InputMetadata& metadata,
                       grpc::AuthContext* connection, OutputMetadata*,
                       OutputMetadata*) final {
    const absl::Status known = Look(metadata, *connection);
    if (known.ok()) return ToGrpc(known);
    const std::string_view path = PathOf(metadata);
    if (path == kHealthCheck) return ToGrpc(absl::OkStatus());
    refused_(path, known);
    return ToGrpc(known);
  }

 private:
  virtual absl::Status Look(const Metadata& metadata,
                            grpc::AuthContext& connection) = 0;
  const Refused refused_;
};

// The entrance of one account.
class AccountProcessor final : public Processor {
 public:
  using Processor::Processor;
  void Assign(uid_t uid, const std::string& user) {
    absl::MutexLock lock(&mutex_);
    uid_ = uid;
    user_ = user;
  }

 private:
  absl::Status Look(const Metadata&, grpc::AuthContext& connection) override {
    absl::MutexLock lock(&mutex_);
    NoteAccount(uid_, user_, connection);
    return absl::OkStatus();
  }

  absl::Mutex mutex_;
  uid_t uid_ ABSL_GUARDED_BY(mutex_) = static_cast<uid_t>(-1);
  std::string user_ ABSL_GUARDED_BY(mutex_);
};

// The entrance of ports.
class PortProcessor final : public Processor {
 public:
  PortProcessor(KnownCallers known, Refused refused)
      : Processor(std::move(refused)), known_(std::move(known)) {}

 private:
  absl::Status Look(const Metadata& metadata,
                    grpc::AuthContext& connection) override {
    return CallerOf(connection, metadata, known_).status();
  }

  const KnownCallers known_;
};

// The entrance of refused connections.
class RefusingProcessor final : public Processor {
 public:
  RefusingProcessor(absl::Status why, Refused refused)
      : Processor(std::move(refused)), why_(std::move(why)) {}

 private:
  absl::Status Look(const Metadata&, grpc::AuthContext&) override {
    return why_;
  }
  const absl::Status why_;
};

struct Entrance {
  std::shared_ptr<Processor> processor;
  std::unique_ptr<ExternalConnectionAcceptor> acceptor;
};

Entrance Add(grpc::ServerBuilder& builder, std::shared_ptr<Processor> processor,
             const std::shared_ptr<grpc::ServerCredentials>& credentials) {
  credentials->SetAuthMetadataProcessor(processor);
  return {std::move(processor),
          builder.experimental().AddExternalConnectionAcceptor(
              grpc::ServerBuilder::experimental_type::ExternalConnectionType::
                  FROM_FD,
              credentials)};
}

std::shared_ptr<grpc::ServerCredentials> OfSocket() {
  return grpc::experimental::LocalServerCredentials(UDS);
}

}  // namespace

class Entrances::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(Options options, grpc::ServerBuilder& builder)
      : options_(std::move(options)) {
    for (int i = 0; i <= options_.accounts; ++i) {
      auto processor = std::make_shared<AccountProcessor>(options_.refused);
      slots_.push_back({processor, Add(builder, processor, OfSocket())});
    }
    full_ = AddRefusing(builder,
                        absl::ResourceExhaustedError(absl::StrCat(
                            options_.accounts,
                            " accounts of this machine have used mpsd since it "
                            "started, and it distinguishes no more: restart "
                            "mpsd, or use a port with a token")));
    nobody_ = AddRefusing(
        builder, absl::UnauthenticatedError(
                     "the kernel does not say whose process this is (its "
                     "account is \"nobody\"); use a port with a token"));
    if (options_.port == nullptr) return;
    port_ =
        Add(builder,
            std::make_shared<PortProcessor>(options_.known, options_.refused),
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
    if (IsNobody(uid) && uid != options_.known.roles.owner) {
      return HandOver(accepted, nobody_);
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
    std::shared_ptr<AccountProcessor> processor;
    Entrance entrance;
  };

  Entrance AddRefusing(grpc::ServerBuilder& builder, absl::Status why) {
    return Add(
        builder,
        std::make_shared<RefusingProcessor>(std::move(why), options_.refused),
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
    if (is_new || name != user) slot.processor->Assign(uid, user);
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
    if (closed_ || entrance.acceptor == nullptr) {
      close(accepted.fd);
      return;
    }
    ExternalConnectionAcceptor::NewConnectionParameters connection;
    // Newer gRPC drops a connection without its listener's descriptor.
    connection.listener_fd = accepted.socket;
    connection.fd = accepted.fd;
    entrance.acceptor->HandleNewConnection(&connection);
  }

  const Options options_;
  std::vector<Slot> slots_;
  Entrance full_;
  Entrance nobody_;
  Entrance port_;  // without an acceptor: no port is served
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
