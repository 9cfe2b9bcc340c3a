// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DNS_SD_LIBRARY_H_
#define MPSD_CORE_DNS_SD_LIBRARY_H_

#include <cstdint>

// The system library's own name.
struct _DNSServiceRef_t;  // NOLINT(bugprone-reserved-identifier)

namespace mpsd::dns_sd {

// The functions of Apple's dns_sd.h that mpsd uses, under their types there. A
// Mac has them in its system library, Linux in Avahi's (the package
// libavahi-compat-libdnssd1), which need not be installed: no header of either
// is included. Ports are in network byte order. A result of 0 is success.
using Ref = _DNSServiceRef_t*;
using RegisterReply = void (*)(Ref, uint32_t flags, int32_t error,
                               const char* name, const char* type,
                               const char* domain, void* context);
using BrowseReply = void (*)(Ref, uint32_t flags, uint32_t interface,
                             int32_t error, const char* name, const char* type,
                             const char* domain, void* context);
using ResolveReply = void (*)(Ref, uint32_t flags, uint32_t interface,
                              int32_t error, const char* full_name,
                              const char* host, uint16_t port,
                              uint16_t txt_bytes, const unsigned char* txt,
                              void* context);

inline constexpr uint32_t kAdd = 0x2;  // of a BrowseReply's flags

struct Library {
  int32_t (*enroll)(Ref*, uint32_t flags, uint32_t interface, const char* name,
                    const char* type, const char* domain, const char* host,
                    uint16_t port, uint16_t txt_bytes, const void* txt,
                    RegisterReply, void* context) = nullptr;
  int32_t (*browse)(Ref*, uint32_t flags, uint32_t interface, const char* type,
                    const char* domain, BrowseReply, void* context) = nullptr;
  int32_t (*resolve)(Ref*, uint32_t flags, uint32_t interface, const char* name,
                     const char* type, const char* domain, ResolveReply,
                     void* context) = nullptr;
  int (*socket)(Ref) = nullptr;
  int32_t (*process)(Ref) = nullptr;
  void (*deallocate)(Ref) = nullptr;
};

// The system's; null where it has none. Thread-safe.
const Library* SystemLibrary();

// The type of the service that mpsd is.
inline constexpr char kServiceType[] = "_mpsd._tcp";

}  // namespace mpsd::dns_sd

#endif  // MPSD_CORE_DNS_SD_LIBRARY_H_
