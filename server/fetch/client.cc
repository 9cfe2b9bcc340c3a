// SPDX-License-Identifier: Apache-2.0
#include "server/fetch/client.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/printable.h"
#include "server/fetch/public_address.h"

namespace mpsd::fetch {
namespace {

constexpr size_t kMostHeaderBytes = 64 << 10;
// Fewer bytes a second than these are a stall.
constexpr long kStalledBytes = 100;
constexpr long kBufferBytes = 256 << 10;

// curl_global_init is not thread-safe in every build of libcurl, and nobody
// else of mpsd calls it.
void InitialiseOnce() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  base::Check(code == CURLE_OK, "libcurl starts");
}

long Milliseconds(absl::Duration duration) {
  return static_cast<long>(absl::ToInt64Milliseconds(duration));
}

}  // namespace

struct Client::Transfer {
  Transfer(const Request& what, const Sink& where)
      : request(what), sink(where) {
    base::Check(easy != nullptr, "libcurl makes a handle");
    error[0] = '\0';
  }
  ~Transfer() {
    curl_easy_cleanup(easy);
    curl_slist_free_all(lines);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  void AddLine(const std::string& line) {
    lines = curl_slist_append(lines, line.c_str());
  }

  static size_t TakeHeader(char* bytes, size_t, size_t count, void* self) {
    static_cast<Transfer*>(self)->ReadHeader({bytes, count});
    return count;
  }
  void ReadHeader(std::string_view line) {
    if (line.starts_with("HTTP/")) answer.headers.clear();  // after a 100
    const size_t colon = line.find(':');
    if (colon == line.npos || header_bytes + line.size() > kMostHeaderBytes) {
      return;
    }
    header_bytes += line.size();
    const std::string name(line.substr(0, colon));
    const std::string value(line.substr(colon + 1));
    answer.headers[absl::AsciiStrToLower(name)] =
        std::string(absl::StripAsciiWhitespace(value));
  }

  static size_t TakeBody(char* bytes, size_t, size_t count, void* self) {
    return static_cast<Transfer*>(self)->Take({bytes, count}) ? count : 0;
  }
  // False ends the transfer.
  bool Take(std::string_view bytes) {
    if (answer.status == 0) ReadStatus();
    if (sink && answer.status >= 200 && answer.status < 300) {
      stopped = sink(answer, bytes);
      return stopped.ok();
    }
    const size_t taken =
        std::min(bytes.size(), request.max_body - answer.body.size());
    answer.body.append(bytes.substr(0, taken));
    answer.cut = taken < bytes.size();
    return !answer.cut;
  }
  void ReadStatus() {
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    answer.status = static_cast<int>(status);
    curl_off_t seconds = 0;
    curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds);
    answer.retry_after = absl::Seconds(std::max<curl_off_t>(seconds, 0));
  }

  // Makes the socket of a connection: the last place at which the address is
  // known and nothing has been sent yet, whatever the name servers said before.
  static curl_socket_t Open(void* self, curlsocktype, curl_sockaddr* address) {
    Transfer& t = *static_cast<Transfer*>(self);
    if (t.request.public_only && !IsPublicAddress(address->addr)) {
      t.forbidden = AddressText(address->addr);
      return CURL_SOCKET_BAD;
    }
    const int fd =
        socket(address->family, address->socktype, address->protocol);
    if (fd >= 0) fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd < 0 ? CURL_SOCKET_BAD : fd;
  }

  absl::StatusOr<Answer> Result() {
    if (!stopped.ok()) return stopped;
    ReadStatus();
    // An answer that is cut for its length has its status nonetheless.
    if (code == CURLE_OK || answer.cut) return std::move(answer);
    if (!forbidden.empty()) {
      return absl::PermissionDeniedError(
          absl::StrCat("the server has the address ", forbidden,
                       ", which is not one of the public internet"));
    }
    return absl::UnavailableError(
        base::Quotable(error[0] != '\0' ? error : curl_easy_strerror(code)));
  }

  const Request& request;
  const Sink& sink;
  CURL* const easy = curl_easy_init();
  curl_slist* lines = nullptr;
  char error[CURL_ERROR_SIZE];
  Answer answer;
  size_t header_bytes = 0;
  absl::Status stopped;   // by the sink
  std::string forbidden;  // the address of a connection that was not made
  CURLcode code = CURLE_OK;
};

Client::Client(Options options)
    : options_(std::move(options)),
      multi_((InitialiseOnce(), curl_multi_init())) {
  base::Check(multi_ != nullptr, "libcurl makes a multi handle");
}

Client::~Client() { curl_multi_cleanup(multi_); }

void Client::Interrupt() {
  interrupted_ = true;
  curl_multi_wakeup(multi_);
}

void Client::Prepare(Transfer& t) const {
  for (const std::string& header : t.request.headers) t.AddLine(header);
  CURL* easy = t.easy;
  if (t.request.body) {
    t.AddLine("Expect:");  // not to wait for "100 Continue"
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(t.request.body->size()));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, t.request.body->c_str());
  }
  curl_easy_setopt(easy, CURLOPT_URL, t.request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
                   static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "mpsd/" MPSD_VERSION);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, t.lines);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &Transfer::TakeHeader);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &t);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Transfer::TakeBody);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &t);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, &Transfer::Open);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, &t);
  curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, kBufferBytes);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, t.error);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                   Milliseconds(options_.connect_timeout));
  if (options_.timeout != absl::InfiniteDuration()) {
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, Milliseconds(options_.timeout));
  }
  if (options_.stall != absl::InfiniteDuration()) {
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, kStalledBytes);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME,
                     static_cast<long>(absl::ToInt64Seconds(options_.stall)));
  }
  // Without this, libcurl waits at the end for a thread that looks up a name of
  // a name server that is silent.
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
  if (t.request.public_only) curl_easy_setopt(easy, CURLOPT_PROXY, "");
  if (!options_.ca_file.empty()) {
    curl_easy_setopt(easy, CURLOPT_CAINFO, options_.ca_file.c_str());
    curl_easy_setopt(easy, CURLOPT_CAPATH, nullptr);
  }
}

bool Client::Perform(Transfer& transfer) {
  curl_multi_add_handle(multi_, transfer.easy);
  bool finished = false;
  while (!finished && !interrupted_) {
    int running = 0, left = 0;
    CURLMcode code = curl_multi_perform(multi_, &running);
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      transfer.code = message->data.result;
      finished = true;
    }
    if (finished) break;
    if (code == CURLM_OK) {
      code = curl_multi_poll(multi_, nullptr, 0, 1000, nullptr);
    }
    if (code != CURLM_OK) {
      transfer.code = CURLE_OUT_OF_MEMORY;
      finished = true;
    }
  }
  curl_multi_remove_handle(multi_, transfer.easy);
  return finished;
}

absl::StatusOr<Answer> Client::Run(const Request& request, const Sink& sink) {
  Transfer transfer(request, sink);
  Prepare(transfer);
  if (!Perform(transfer)) return absl::CancelledError("mpsd stops");
  return transfer.Result();
}

}  // namespace mpsd::fetch
