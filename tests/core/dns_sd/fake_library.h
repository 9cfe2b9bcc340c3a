// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CORE_DNS_SD_FAKE_LIBRARY_H_
#define MPSD_TESTS_CORE_DNS_SD_FAKE_LIBRARY_H_

#include <unistd.h>

#include <atomic>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "core/dns_sd/library.h"

// What the library under test takes for a connection to the system's service:
// a pipe with a byte for each answer that waits.
struct _DNSServiceRef_t {
  int ends[2] = {-1, -1};
  bool broken = false;  // the service went away behind it
  std::deque<std::function<void()>> answers;

  _DNSServiceRef_t() {
    if (pipe(ends) != 0) abort();
  }
  ~_DNSServiceRef_t() {
    for (int end : ends) close(end);
  }
  void Answer(std::function<void()> answer) {
    answers.push_back(std::move(answer));
    if (write(ends[1], "x", 1) != 1) abort();
  }
};

namespace mpsd::dns_sd {

// A network that tells what a test puts there. One at a time.
struct FakeNetwork {
  struct Told {
    std::string name, host;
    uint16_t port = 0;
    std::string txt;
    bool resolves = true;
  };

  FakeNetwork() { current = this; }
  ~FakeNetwork() { current = nullptr; }

  std::vector<Told> told;
  std::atomic<int32_t> error = 0;    // of a call
  std::atomic<int32_t> refused = 0;  // of a registration's answer
  std::atomic<bool> gone = false;    // the system's service
  bool goes = false;                 // once it has told everything
  std::atomic<int> registrations = 0, open = 0;
  std::atomic<uint16_t> port = 0;  // in network byte order
  std::string txt;

  static inline FakeNetwork* current = nullptr;

  Library library() const {
    Library functions;
    functions.enroll = [](Ref* ref, uint32_t, uint32_t, const char*,
                          const char*, const char*, const char*, uint16_t port,
                          uint16_t bytes, const void* txt, RegisterReply reply,
                          void* context) {
      ++current->registrations;
      if (current->error != 0) return current->error.load();
      *ref = Open();
      current->port = port;
      current->txt.assign(static_cast<const char*>(txt), bytes);
      const int32_t refused = current->refused;
      Ref mine = *ref;
      mine->Answer([=] {
        reply(mine, 0, refused, "studio\x1b[2J", kServiceType, "local.",
              context);
      });
      return 0;
    };
    functions.browse = [](Ref* ref, uint32_t, uint32_t, const char*,
                          const char*, BrowseReply reply, void* context) {
      if (current->error != 0) return current->error.load();
      *ref = Open();
      Ref mine = *ref;
      for (const Told& told : current->told) {
        mine->Answer([=, &told] {
          reply(mine, kAdd, 1, 0, told.name.c_str(), kServiceType, "local.",
                context);
        });
      }
      if (current->goes) mine->Answer([mine] { mine->broken = true; });
      return 0;
    };
    functions.resolve = [](Ref* ref, uint32_t, uint32_t, const char* name,
                           const char*, const char*, ResolveReply reply,
                           void* context) {
      *ref = Open();
      Ref mine = *ref;
      for (const Told& told : current->told) {
        if (told.name != name || !told.resolves) continue;
        mine->Answer([=, &told] {
          reply(mine, 0, 1, 0, "", told.host.c_str(), told.port,
                static_cast<uint16_t>(told.txt.size()),
                reinterpret_cast<const unsigned char*>(told.txt.data()),
                context);
        });
      }
      return 0;
    };
    functions.socket = [](Ref ref) { return ref->ends[0]; };
    functions.process = [](Ref ref) {
      if (current->gone || ref->broken) return -1;
      char byte;
      if (read(ref->ends[0], &byte, 1) != 1) return -1;
      const std::function<void()> answer = ref->answers.front();
      ref->answers.pop_front();
      answer();
      return ref->broken ? -1 : 0;
    };
    functions.deallocate = [](Ref ref) {
      --current->open;
      delete ref;
    };
    return functions;
  }

 private:
  static Ref Open() {
    ++current->open;
    Ref ref = new _DNSServiceRef_t;
    // A service that goes away makes its connection readable. The connection
    // stays broken though the service comes back: there is no answer to read.
    ref->broken = current->gone;
    if (ref->broken && write(ref->ends[1], "x", 1) != 1) abort();
    return ref;
  }
};

}  // namespace mpsd::dns_sd

#endif  // MPSD_TESTS_CORE_DNS_SD_FAKE_LIBRARY_H_
