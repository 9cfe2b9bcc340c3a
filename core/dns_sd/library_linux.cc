// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include "core/dns_sd/library.h"

namespace mpsd::dns_sd {
namespace {

template <typename Function>
bool Take(void* handle, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(handle, name));
  return *function != nullptr;
}

const Library* Load() {
  // Never closed: Avahi's library has a thread for each service.
  void* handle = dlopen("libdns_sd.so.1", RTLD_NOW | RTLD_LOCAL);
  static Library library;
  if (handle == nullptr ||
      !Take(handle, "DNSServiceRegister", &library.enroll) ||
      !Take(handle, "DNSServiceBrowse", &library.browse) ||
      !Take(handle, "DNSServiceResolve", &library.resolve) ||
      !Take(handle, "DNSServiceRefSockFD", &library.socket) ||
      !Take(handle, "DNSServiceProcessResult", &library.process) ||
      !Take(handle, "DNSServiceRefDeallocate", &library.deallocate)) {
    return nullptr;
  }
  return &library;
}

}  // namespace

const Library* SystemLibrary() {
  static const Library* const library = Load();
  return library;
}

}  // namespace mpsd::dns_sd
