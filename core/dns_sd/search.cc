// SPDX-License-Identifier: Apache-2.0
#include "core/dns_sd/search.h"

#include <arpa/inet.h>
#include <poll.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"

namespace mpsd::dns_sd {
namespace {

constexpr size_t kMostServices = 64;
constexpr absl::Duration kOneResolution = absl::Seconds(1);

struct Instance {
  uint32_t interface;
  std::string name, type, domain;
};

struct Browsing {
  std::deque<Instance> met;
  std::set<std::string> names;
};

struct Resolution {
  bool done = false;
  Service service;
};

std::string Text(const char* text) { return text == nullptr ? "" : text; }

void Met(Ref, uint32_t flags, uint32_t interface, int32_t error,
         const char* name, const char* type, const char* domain,
         void* context) {
  auto& browsing = *static_cast<Browsing*>(context);
  if (error != 0 || (flags & kAdd) == 0) return;
  if (browsing.names.size() >= kMostServices) return;
  // A machine tells of itself on each of its interfaces.
  if (!browsing.names.insert(absl::StrCat(Text(name), "\n", Text(domain)))
           .second) {
    return;
  }
  browsing.met.push_back({interface, Text(name), Text(type), Text(domain)});
}

void Resolved(Ref, uint32_t, uint32_t, int32_t error, const char*,
              const char* host, uint16_t port, uint16_t txt_bytes,
              const unsigned char* txt, void* context) {
  auto& resolution = *static_cast<Resolution*>(context);
  if (error != 0 || host == nullptr) return;
  resolution.done = true;
  resolution.service.host = host;
  if (!resolution.service.host.empty() &&
      resolution.service.host.back() == '.') {
    resolution.service.host.pop_back();
  }
  resolution.service.port = ntohs(port);
  if (txt != nullptr) {
    resolution.service.txt = DecodeTxt(
        std::string_view(reinterpret_cast<const char*>(txt), txt_bytes));
  }
}

// Hears what comes until `end`; false once the service has gone.
bool Hear(const Library& library, Ref ref, absl::Duration end) {
  const absl::Duration left = end - base::Clock::Real().Monotonic();
  pollfd wanted = {library.socket(ref), POLLIN, 0};
  const int64_t nap = std::max<int64_t>(1, absl::ToInt64Milliseconds(left));
  if (poll(&wanted, 1, static_cast<int>(nap)) <= 0) return true;
  return library.process(ref) == 0;
}

bool Resolve(const Library& library, const Instance& instance,
             absl::Duration end, Service* service) {
  const base::Clock& clock = base::Clock::Real();
  Resolution resolution;
  Ref ref = nullptr;
  if (library.resolve(&ref, 0, instance.interface, instance.name.c_str(),
                      instance.type.c_str(), instance.domain.c_str(), Resolved,
                      &resolution) != 0) {
    return false;
  }
  while (!resolution.done && clock.Monotonic() < end) {
    if (!Hear(library, ref, end)) break;
  }
  library.deallocate(ref);
  *service = std::move(resolution.service);
  service->name = instance.name;
  return resolution.done;
}

}  // namespace

absl::StatusOr<std::vector<Service>> Search(const Library& library,
                                            absl::Duration patience) {
  const base::Clock& clock = base::Clock::Real();
  const absl::Duration end = clock.Monotonic() + patience;
  Browsing browsing;
  Ref ref = nullptr;
  if (const int32_t error =
          library.browse(&ref, 0, 0, kServiceType, nullptr, Met, &browsing);
      error != 0) {
    return absl::UnavailableError(absl::StrCat(
        "the system's DNS-SD does not answer (", error,
        "): is mDNSResponder, or avahi-daemon with D-Bus, running?"));
  }
  std::vector<Service> services;
  bool gone = false;
  while (!gone && clock.Monotonic() < end) {
    gone = !Hear(library, ref, end);
    for (; !browsing.met.empty(); browsing.met.pop_front()) {
      const absl::Duration soon =
          std::min(end, clock.Monotonic() + kOneResolution);
      Service service;
      if (Resolve(library, browsing.met.front(), soon, &service)) {
        services.push_back(std::move(service));
      }
    }
  }
  library.deallocate(ref);
  if (gone && services.empty()) {
    return absl::UnavailableError("the system's DNS-SD has gone meanwhile");
  }
  std::sort(services.begin(), services.end(),
            [](const Service& a, const Service& b) {
              return std::tie(a.name, a.host) < std::tie(b.name, b.host);
            });
  return services;
}

}  // namespace mpsd::dns_sd
