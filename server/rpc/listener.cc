// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"

#ifdef __APPLE__
#include <malloc/malloc.h>
#include <netinet/tcp.h>
#include <sys/ucred.h>
#else
#include <linux/tcp.h>
#include <malloc.h>
#endif

namespace mpsd::listener {
namespace {

constexpr char kUnix[] = "unix:";
constexpr size_t kMaxSocketPath = sizeof(sockaddr_un::sun_path) - 1;
constexpr int32_t kMaxPort = 65535;

bool IsHostAndPort(const std::string& address) {
  const size_t colon = address.rfind(':');
  int32_t port = 0;
  return colon != std::string::npos && colon > 0 &&
         absl::SimpleAtoi(address.substr(colon + 1), &port) && port >= 0 &&
         port <= kMaxPort;
}

}  // namespace

std::string SocketPath(const std::string& address) {
  if (address.rfind(kUnix, 0) != 0) return "";
  const std::string path = address.substr(sizeof(kUnix) - 1);
  // gRPC reads unix:///absolute as unix:/absolute.
  return path.rfind("///", 0) == 0 ? path.substr(2) : path;
}

absl::Status CheckListenAddress(const std::string& address) {
  const std::string path = SocketPath(address);
  if (path.empty()) {
    if (address != kUnix && IsHostAndPort(address)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "address '", address, "': expected HOST:PORT or unix:PATH"));
  }
  if (path.size() > kMaxSocketPath) {
    return absl::InvalidArgumentError(
        absl::StrCat("address '", address, "': the socket's path has ",
                     path.size(), " bytes, the system allows ", kMaxSocketPath,
                     "; choose a shorter --state-dir or a socket elsewhere"));
  }
  std::error_code error;
  const auto type = std::filesystem::symlink_status(path, error).type();
  if (type != std::filesystem::file_type::not_found &&
      type != std::filesystem::file_type::socket) {
    return absl::InvalidArgumentError(absl::StrCat(
        "address '", address, "': ", path, " exists and is not a socket"));
  }
  return absl::OkStatus();
}

bool IsLoopback(const std::string& address) {
  const std::string host = HostOf(address);
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) {
    return IN6_IS_ADDR_LOOPBACK(&v6);
  }
  return absl::EqualsIgnoreCase(host, "localhost");
}

std::string HostOf(const std::string& address) {
  std::string host = address.substr(0, address.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  return host;
}

std::string BoundAddress(const std::string& address, int port) {
  if (!SocketPath(address).empty()) return address;
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

std::optional<Peer> PeerOf(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  // Linux returns credentials for a port as well, with an unused account.
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      address.ss_family != AF_UNIX) {
    return std::nullopt;
  }
#ifdef __APPLE__
  xucred credentials{};
  length = sizeof(credentials);
  if (getsockopt(fd, SOL_LOCAL, LOCAL_PEERCRED, &credentials, &length) != 0 ||
      length != sizeof(credentials) ||
      credentials.cr_version != XUCRED_VERSION) {
    return std::nullopt;
  }
  Peer peer{credentials.cr_uid, 0};
  length = sizeof(peer.pid);
  if (getsockopt(fd, SOL_LOCAL, LOCAL_PEERPID, &peer.pid, &length) != 0) {
    peer.pid = 0;
  }
  return peer;
#else
  ucred credentials{};
  length = sizeof(credentials);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0 ||
      length != sizeof(credentials)) {
    return std::nullopt;
  }
  return Peer{credentials.uid, credentials.pid};
#endif
}

namespace {

constexpr int kBacklog = 1024;
constexpr int kRetryMs = 100;  // in ms, after accept found no descriptor
constexpr absl::Duration kComplainEvery = absl::Minutes(1);

absl::Status Unavailable(const std::string& address, const std::string& why) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", address, ": ", why,
                   why == std::generic_category().message(EADDRINUSE)
                       ? "; is another program using the address?"
                       : ""));
}

absl::Status Unavailable(const std::string& address, int error) {
  return Unavailable(address, std::generic_category().message(error));
}

// Holds the umask at 077 while a socket is made, because no other account may
// connect between its creation and chmod. 077 and not 177: another thread may
// be creating a folder.
class PrivateUmask {
 public:
  PrivateUmask() : before_(umask(077)) {}
  ~PrivateUmask() { umask(before_); }

 private:
  const mode_t before_;
};

void SetUp(int fd) {
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

// Connects to the socket, which a listener answers at once, even if its backlog
// is full. Linux then returns EAGAIN, a Mac ECONNREFUSED.
bool IsListenedOn(const sockaddr_un& name) {
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) return true;
  SetUp(fd);
  const bool refused = connect(fd, reinterpret_cast<const sockaddr*>(&name),
                               sizeof(name)) != 0 &&
                       errno == ECONNREFUSED;
  close(fd);
  return !refused;
}

// Removes a socket that a daemon left over. Returns why the path is not free,
// or "".
std::string FreePath(const std::string& path, const sockaddr_un& name) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return "";
  if (!S_ISSOCK(info.st_mode)) return "the path exists and is not a socket";
  if (info.st_uid != geteuid()) {
    return "the socket is another user's; choose another path";
  }
  if (IsListenedOn(name)) return "another program listens on the socket";
  unlink(path.c_str());
  return "";
}

// Returns 0 or an errno. The socket's group is set before its members may use
// it.
int BindUnix(int fd, const std::string& path, const sockaddr_un& name,
             std::optional<gid_t> group) {
  PrivateUmask umask;
  if (bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0 ||
      (group && lchown(path.c_str(), static_cast<uid_t>(-1), *group) != 0) ||
      chmod(path.c_str(), group ? 0660 : 0600) != 0 ||
      listen(fd, kBacklog) != 0) {
    return errno;
  }
  return 0;
}

int BindTcp(int fd, const addrinfo& entry) {
  const int on = 1, off = 0;
  // SO_REUSEPORT stays off: a second daemon on the same port must fail.
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (entry.ai_family == AF_INET6) {
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  if (bind(fd, entry.ai_addr, entry.ai_addrlen) != 0 ||
      listen(fd, kBacklog) != 0) {
    return errno;
  }
  return 0;
}

in_port_t* PortOf(sockaddr& address) {
  return address.sa_family == AF_INET6
             ? &reinterpret_cast<sockaddr_in6&>(address).sin6_port
             : &reinterpret_cast<sockaddr_in&>(address).sin_port;
}

in_port_t BoundPort(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return *PortOf(reinterpret_cast<sockaddr&>(address));
}

// A machine without IPv6 still resolves names to IPv6 addresses.
bool HasNoSuchAddress(int error) {
  return error == EAFNOSUPPORT || error == EADDRNOTAVAIL;
}

// Listens on every address of the host, all on one port. Returns the port.
absl::StatusOr<int> ListenTcp(const std::string& address,
                              std::vector<int>& sockets) {
  const size_t colon = address.rfind(':');
  const std::string host = HostOf(address);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed =
      getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (failed != 0) return Unavailable(address, gai_strerror(failed));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found,
                                                                 &freeaddrinfo);
  in_port_t port = 0;
  int error = EADDRNOTAVAIL;
  for (addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (port != 0) *PortOf(*entry->ai_addr) = port;
    const int fd = socket(entry->ai_family, SOCK_STREAM, 0);
    const int bound = fd < 0 ? errno : BindTcp(fd, *entry);
    if (bound == 0) {
      SetUp(fd);
      sockets.push_back(fd);
      port = BoundPort(fd);
      continue;
    }
    if (fd >= 0) close(fd);
    error = bound;
    if (!HasNoSuchAddress(bound)) break;
  }
  if (port == 0 || !HasNoSuchAddress(error)) {
    return Unavailable(address, error);
  }
  return ntohs(port);
}

// Without the scope, for which there are several spellings.
std::string AddressName(std::string_view host, std::string_view port) {
  return absl::StrCat(std::string(host.substr(0, host.find('%'))), " ",
                      std::string(port));
}

// `wake`: the writing end of a pipe, which may be full.
void Wake(int wake) { (void)!write(wake, "", 1); }

// What the program has allocated.
int64_t HeapBytes() {
#ifdef __APPLE__
  malloc_statistics_t heap{};
  malloc_zone_statistics(nullptr, &heap);
  return static_cast<int64_t>(heap.size_in_use);
#else
  const struct mallinfo2 heap = mallinfo2();
  return static_cast<int64_t>(heap.uordblks + heap.hblkhd);
#endif
}

// What came over a connection to a port; 0 if the system does not know.
int64_t BytesReceived(int fd) {
#ifdef __APPLE__
  tcp_connection_info info{};
  socklen_t length = sizeof(info);
  getsockopt(fd, IPPROTO_TCP, TCP_CONNECTION_INFO, &info, &length);
  return static_cast<int64_t>(info.tcpi_rxbytes);
#else
  tcp_info info{};
  socklen_t length = sizeof(info);
  getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length);
  return static_cast<int64_t>(info.tcpi_bytes_received);
#endif
}

// The name of a port's client.
std::string ClientOf(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  getpeername(fd, address, &length);
  char text[INET6_ADDRSTRLEN] = "";
  std::string host;
  if (storage.ss_family == AF_INET6) {
    const in6_addr& v6 = reinterpret_cast<sockaddr_in6*>(address)->sin6_addr;
    host = std::string(absl::StripPrefix(
        inet_ntop(AF_INET6, &v6, text, sizeof(text)), "::ffff:"));
  } else {
    host =
        inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(address)->sin_addr,
                  text, sizeof(text));
  }
  return AddressName(host, absl::StrCat(ntohs(*PortOf(*address))));
}

}  // namespace

std::string NetworkOf(int fd) {
  sockaddr_storage peer{};
  socklen_t length = sizeof(peer);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0) {
    return "";
  }
  if (peer.ss_family == AF_INET) {
    const auto& ip = reinterpret_cast<const sockaddr_in&>(peer).sin_addr;
    return {reinterpret_cast<const char*>(&ip), sizeof(ip)};
  }
  if (peer.ss_family != AF_INET6) return "";
  const auto& ip = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
  const char* bytes = reinterpret_cast<const char*>(&ip);
  if (IN6_IS_ADDR_V4MAPPED(&ip)) return {bytes + 12, 4};
  return {bytes, IN6_IS_ADDR_LINKLOCAL(&ip) ? sizeof(ip) : size_t{8}};
}

// The open connections to ports. Has a second descriptor of each, since who
// takes a connection closes it without notice. Thread-safe.
class Listener::Connections {
 public:
  // `wake`: where a byte wakes the thread that calls Tend().
  Connections(const Options& options, const int& wake)
      : wake_(wake),
        stranger_age_(absl::ToChronoMilliseconds(options.stranger_age)),
        max_descriptor_(options.max_descriptor),
        share_(std::clamp(max_descriptor_ / 16, 8, 256)) {}
  ~Connections() {
    for (const auto& [name, open] : open_) close(open.fd);
  }

  // Returns why there is no room for the connection, or "".
  std::string Add(int fd) {
    const std::string name = ClientOf(fd), network = NetworkOf(fd);
    absl::MutexLock lock(&mutex_);
    // Neighbours behind one address share it, and one who is known must not
    // take their places.
    MakeRoom([&](const Connection& other) {
      return !other.known && other.network == network;
    });
    const int second = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    Connection& open = open_[name];
    if (open.fd >= 0) close(open.fd);  // an earlier one, which is gone
    open = Connection{second, network, Clock::now()};
    if (second >= 0 && second < max_descriptor_) return "";
    End(open_.find(name));
    return "no descriptor is left for it";
  }

  void Known(const std::string& name, const std::string& user,
             const std::string& credential) {
    absl::MutexLock lock(&mutex_);
    const auto found = open_.find(name);
    if (found == open_.end()) return;
    Connection& open = found->second;
    open.credential = credential;
    if (std::exchange(open.known, true) && open.user == user) return;
    open.user = user;
    MakeRoom([&](const Connection& other) {
      return other.known && other.user == user && &other != &open;
    });
  }

  void Forget(const std::string& credential) {
    absl::MutexLock lock(&mutex_);
    for (auto& [name, open] : open_) {
      if (!open.known || open.credential != credential) continue;
      open.known = false;
      open.since = Clock::now();
    }
    if (std::exchange(rests_, false)) Wake(wake_);
  }

  // Returns where in what comes the call's wait begins.
  int64_t Begin(const std::string& name) {
    absl::MutexLock lock(&mutex_);
    const auto found = open_.find(name);
    if (found == open_.end()) return 0;
    if (std::exchange(rests_, false)) Wake(wake_);
    return *found->second.waits.insert(Unread(found->second));
  }
  int64_t BeginLocal(const std::string& user, std::function<void()> cancel) {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(rests_, false)) Wake(wake_);
    local_[++last_local_] = {user, std::move(cancel), Clock::now()};
    return last_local_;
  }
  // Ends the wait from `start` on, with a message of so many bytes. Returns
  // where the next wait begins, if there is one.
  int64_t End(const std::string& name, int64_t start, size_t bytes,
              bool has_next) {
    absl::MutexLock lock(&mutex_);
    if (name.empty()) {
      if (has_next) local_[start].since = Clock::now();
      if (!has_next) local_.erase(start);
      return start;
    }
    const auto found = open_.find(name);
    if (found == open_.end()) return 0;
    auto& waits = found->second.waits;
    const auto wait = waits.find(start);
    if (wait != waits.end()) waits.erase(wait);
    // With the frames and records around it.
    found->second.read += static_cast<int64_t>(bytes + bytes / 128);
    return has_next ? *waits.insert(Unread(found->second)) : 0;
  }

  // Ends the oldest connection that is not known; false if there is none.
  bool EndOldest() {
    absl::MutexLock lock(&mutex_);
    return EndOldestOf([](const Connection& open) { return !open.known; });
  }

  // Forgets what was closed and ends strangers. Returns in how many
  // milliseconds to do so again; -1: not before a connection is added,
  // one of those that it adds to `polled` ends, or the thread is woken.
  int Tend(std::vector<pollfd>& polled) {
    // Without the lock: a call that is cancelled may end at once, on this
    // thread.
    for (const auto& cancel : GreedyLocal()) cancel();
    absl::MutexLock lock(&mutex_);
    EndLate();
    EndGreedy();
    constexpr int kWatchEvery = 10;
    rests_ = local_.empty();
    for (const auto& [name, open] : open_) {
      polled.push_back({open.fd, POLLHUP, 0});
      rests_ &= open.known && open.waits.empty();
    }
    return rests_ ? -1 : kWatchEvery;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    int fd = -1;
    std::string network;
    Clock::time_point since;
    bool known = false;
    std::string user = {}, credential = {};  // as last known
    int64_t read = 0;  // bytes of the messages that calls got
    // Unread() at the start of each call's wait.
    std::multiset<int64_t> waits = {};
  };
  static constexpr int64_t kStrangersBytes = 1 << 20;
  // The largest message, and something for other calls.
  static constexpr int64_t kUsersBytes = 40 << 20;
  static constexpr int64_t kLocalBytes = 112 << 20;
  static constexpr std::chrono::milliseconds kPatience{50};
  struct LocalWait {
    std::string user;
    std::function<void()> cancel;
    Clock::time_point since;
  };
  using Open = std::map<std::string, Connection>;  // by the client's name

  // Ends the oldest of these if they are as many as one client may have.
  void MakeRoom(absl::FunctionRef<bool(const Connection&)> among)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto is_full = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return std::count_if(open_.begin(), open_.end(), [&](const auto& open) {
               return among(open.second);
             }) >= share_;
    };
    if (is_full()) EndLate();
    if (is_full()) EndOldestOf(among);
  }

  bool EndOldestOf(absl::FunctionRef<bool(const Connection&)> among)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    auto oldest = open_.end();
    for (auto open = open_.begin(); open != open_.end(); ++open) {
      if (among(open->second) && (oldest == open_.end() ||
                                  open->second.since < oldest->second.since)) {
        oldest = open;
      }
    }
    if (oldest != open_.end()) End(oldest);
    return oldest != open_.end();
  }

  void EndLate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<pollfd> states;
    for (const auto& [name, open] : open_) {
      states.push_back({open.fd, POLLIN, 0});
    }
    poll(states.data(), states.size(), 0);
    auto state = states.begin();
    const Clock::time_point before = Clock::now() - stranger_age_;
    for (auto open = open_.begin(); open != open_.end();) {
      const bool gone =
          (state++->revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
      const bool late = !open->second.known && open->second.since < before;
      open = gone || late ? End(open) : std::next(open);
    }
  }

  static int64_t Unread(const Connection& open) {
    return BytesReceived(open.fd) - open.read;
  }

  // Of a user's connections those with the least unfinished messages stay.
  void EndGreedy() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::multimap<int64_t, Open::iterator> unfinished;
    for (auto open = open_.begin(); open != open_.end();) {
      const auto here = open++;
      const Connection& c = here->second;
      if (!c.known && Unread(c) > kStrangersBytes) {
        End(here);
      } else if (!c.waits.empty()) {
        unfinished.emplace(Unread(c) - *c.waits.begin(), here);
      }
    }
    std::map<std::string, int64_t> of_user;
    for (const auto& [bytes, open] : unfinished) {
      int64_t& sum = of_user[open->second.user];
      sum += bytes;
      if (sum > kUsersBytes) End(open);
    }
  }

  // What cancels them.
  std::vector<std::function<void()>> GreedyLocal() {
    absl::MutexLock lock(&mutex_);
    std::vector<std::function<void()>> most;
    const int64_t heap = HeapBytes();
    if (local_.empty()) heap_at_rest_ = heap;
    if (heap - heap_at_rest_ <= kLocalBytes) return most;
    const Clock::time_point late = Clock::now() - kPatience;
    std::map<std::string, std::vector<std::function<void()>>> of_user;
    for (const auto& [start, wait] : local_) {
      if (wait.since > late) continue;
      auto& cancels = of_user[wait.user];
      cancels.push_back(wait.cancel);
      if (cancels.size() > most.size()) most = cancels;
    }
    return most;
  }

  // Whoever has the first descriptor sees the end of the connection.
  Open::iterator End(Open::iterator open)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    shutdown(open->second.fd, SHUT_RDWR);
    close(open->second.fd);
    return open_.erase(open);
  }

  const int& wake_;
  const std::chrono::milliseconds stranger_age_;
  const int max_descriptor_;
  const int share_;  // of strangers of one address, and of one user
  absl::Mutex mutex_;
  bool rests_ ABSL_GUARDED_BY(mutex_) = false;  // the thread, until woken
  Open open_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, LocalWait> local_ ABSL_GUARDED_BY(mutex_);  // by number
  int64_t last_local_ ABSL_GUARDED_BY(mutex_) = 0;
  // In bytes, when last no call over a unix socket waited.
  int64_t heap_at_rest_ ABSL_GUARDED_BY(mutex_) = 0;
};

Listener::Listener(Options options)
    : options_(std::move(options)),
      connections_(options_.stranger_age == absl::InfiniteDuration()
                       ? nullptr
                       : std::make_unique<Connections>(options_, wake_[1])) {}

void Listener::Known(std::string_view host, std::string_view port,
                     const std::string& user, const std::string& credential) {
  if (connections_ == nullptr) return;
  connections_->Known(AddressName(host, port), user, credential);
}

void Listener::Forget(const std::string& credential) {
  if (connections_ != nullptr) connections_->Forget(credential);
}

std::unique_ptr<Listener::Wait> Listener::Await(std::string_view host,
                                                std::string_view port) {
  if (connections_ == nullptr) return nullptr;
  const std::string name = AddressName(host, port);
  return std::make_unique<Wait>(*connections_, name, connections_->Begin(name));
}

std::unique_ptr<Listener::Wait> Listener::AwaitLocal(
    const std::string& user, std::function<void()> cancel) {
  if (connections_ == nullptr) return nullptr;
  return std::make_unique<Wait>(
      *connections_, "", connections_->BeginLocal(user, std::move(cancel)));
}

Listener::Wait::~Wait() { connections_.End(name_, start_, 0, false); }

void Listener::Wait::Came(size_t bytes) {
  start_ = connections_.End(name_, start_, bytes, true);
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Open(Options options) {
  auto listener = absl::WrapUnique(new Listener(std::move(options)));
  if (pipe(listener->wake_) != 0) return base::ErrnoStatus(errno, "pipe");
  for (int fd : listener->wake_) SetUp(fd);
  for (const std::string& address : listener->options_.addresses) {
    RETURN_IF_ERROR(listener->Listen(address));
  }
  return listener;
}

absl::Status Listener::Listen(const std::string& address) {
  const std::string path = SocketPath(address);
  if (path.empty()) {
    ASSIGN_OR_RETURN(int port, ListenTcp(address, sockets_));
    bound_.push_back(BoundAddress(address, port));
    return absl::OkStatus();
  }
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  path.copy(name.sun_path, sizeof(name.sun_path) - 1);
  if (const std::string why = FreePath(path, name); !why.empty()) {
    return Unavailable(address, why);
  }
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) return Unavailable(address, errno);
  sockets_.push_back(fd);
  if (const int error = BindUnix(fd, path, name, options_.socket_group)) {
    return Unavailable(address, error);
  }
  SetUp(fd);
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return Unavailable(address, errno);
  files_.push_back({path, info.st_dev, info.st_ino});
  bound_.push_back(address);
  return absl::OkStatus();
}

Listener::~Listener() {
  Stop();
  for (int fd : wake_) close(fd);
}

void Listener::Start(Take take) {
  base::Check(!thread_.joinable() && !stops_, "Start is called once");
  take_ = std::move(take);
  thread_ = std::thread([this] { Run(); });
}

void Listener::Stop() {
  // The sockets stay open until the thread has ended: it would otherwise accept
  // on a number that another file has by then.
  stops_ = true;
  Wake(wake_[1]);
  if (thread_.joinable()) thread_.join();
  for (int fd : sockets_) close(fd);
  sockets_.clear();
  for (const SocketFile& file : files_) {
    struct stat info;
    if (lstat(file.path.c_str(), &info) == 0 && info.st_dev == file.device &&
        info.st_ino == file.inode) {
      unlink(file.path.c_str());
    }
  }
  files_.clear();
}

void Listener::Run() {
  while (!stops_) {
    std::vector<pollfd> polled = {{wake_[0], POLLIN, 0}};
    for (int fd : sockets_) polled.push_back({fd, POLLIN, 0});
    const int wait = connections_ == nullptr ? -1 : connections_->Tend(polled);
    if (poll(polled.data(), polled.size(), wait) < 0) continue;
    char bytes[64];
    if (polled[0].revents != 0) (void)!read(wake_[0], bytes, sizeof(bytes));
    bool accepted = true;
    for (size_t i = 1; i <= sockets_.size(); ++i) {
      if (polled[i].revents != 0) accepted &= AcceptAll(polled[i].fd);
    }
    // Waits only on the pipe, so that Stop ends the wait, but a connection that
    // could not be accepted does not.
    if (!accepted) poll(polled.data(), 1, kRetryMs);
  }
}

bool Listener::AcceptAll(int socket) {
  while (true) {
    // The socket does not block: a client that gives up between poll and accept
    // must not block this thread.
    const int fd = accept(socket, nullptr, nullptr);
    const std::optional<Peer> peer = fd >= 0 ? PeerOf(fd) : std::nullopt;
    const std::string refusal = fd >= 0 ? Refusal(fd, peer) : "";
    if (!refusal.empty()) {
      close(fd);
      Complain(absl::StrCat("a connection was refused: ", refusal));
    } else if (fd >= 0) {
      SetUp(fd);
      take_({socket, fd, peer});
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return true;
    } else if (errno != EINTR && errno != ECONNABORTED && errno != EPROTO) {
      Complain(absl::StrCat("no connection can be accepted: ",
                            std::generic_category().message(errno)));
      return false;
    }
  }
}

std::string Listener::Refusal(int fd, const std::optional<Peer>& peer) {
  // The watchdog's connections are this process's own: if one were refused
  // while descriptors are short, the watchdog would think that the daemon
  // hangs and end it.
  if (peer && peer->pid == getpid()) return "";
  const int limit =
      peer ? options_.max_descriptor : options_.max_descriptor / 4 * 3;
  const bool counts = !peer && connections_ != nullptr;
  // The numbers above the limit serve until a stranger's connection is closed.
  const bool has_room = counts && fd >= limit && fd < options_.max_descriptor &&
                        connections_->EndOldest();
  if (fd >= limit && !has_room) {
    return absl::StrCat(
        "the daemon has ", limit,
        " files and connections open; close some, or raise its limit of open "
        "files");
  }
  return counts ? connections_->Add(fd) : "";
}

void Listener::Complain(const std::string& line) {
  const absl::Duration now = base::Clock::Real().Monotonic();
  if (!options_.log || now < complained_ + kComplainEvery) return;
  complained_ = now;
  options_.log(line);
}

}  // namespace mpsd::listener
