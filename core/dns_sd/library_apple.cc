// SPDX-License-Identifier: Apache-2.0
#include "core/dns_sd/library.h"

// libSystem's, which every program is linked to; declared here, because
// compilers for a Mac that run elsewhere lack the header.
extern "C" {
int32_t DNSServiceRegister(_DNSServiceRef_t**, uint32_t, uint32_t, const char*,
                           const char*, const char*, const char*, uint16_t,
                           uint16_t, const void*, mpsd::dns_sd::RegisterReply,
                           void*);
int32_t DNSServiceBrowse(_DNSServiceRef_t**, uint32_t, uint32_t, const char*,
                         const char*, mpsd::dns_sd::BrowseReply, void*);
int32_t DNSServiceResolve(_DNSServiceRef_t**, uint32_t, uint32_t, const char*,
                          const char*, const char*, mpsd::dns_sd::ResolveReply,
                          void*);
int DNSServiceRefSockFD(_DNSServiceRef_t*);
int32_t DNSServiceProcessResult(_DNSServiceRef_t*);
void DNSServiceRefDeallocate(_DNSServiceRef_t*);
}

namespace mpsd::dns_sd {

const Library* SystemLibrary() {
  static constexpr Library library = {
      DNSServiceRegister,  DNSServiceBrowse,        DNSServiceResolve,
      DNSServiceRefSockFD, DNSServiceProcessResult, DNSServiceRefDeallocate};
  return &library;
}

}  // namespace mpsd::dns_sd
