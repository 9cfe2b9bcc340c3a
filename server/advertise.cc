// SPDX-License-Identifier: Apache-2.0
#include "server/advertise.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "core/base/limits.h"
#include "core/base/small_file.h"
#include "core/certificates/certificate_facts.h"
#include "core/certificates/pem.h"
#include "core/dns_sd/library.h"
#include "server/listen_rules.h"
#include "server/listener/listen_address.h"

namespace mpsd {

std::optional<uint16_t> AdvertisedPort(
    const std::vector<std::string>& addresses) {
  for (const std::string& address : addresses) {
    uint32_t port = 0;
    if (IsPort(address) && !listener::IsLoopback(address) &&
        absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) {
      return static_cast<uint16_t>(port);
    }
  }
  return std::nullopt;
}

dns_sd::TxtRecord AdvertisedFacts(const std::filesystem::path& chain) {
  dns_sd::TxtRecord facts = {{"txtvers", "1"}, {"version", MPSD_VERSION}};
  const auto pem = base::ReadSmallFile(chain, limits::kPemBytes);
  if (!pem.ok()) return facts;
  const auto certificates = certificates::ParseCertificates(*pem);
  if (!certificates.ok()) return facts;
  const auto authority = certificates::FactsOf(*certificates->back());
  if (authority.ok()) facts["ca"] = authority->fingerprint;
  return facts;
}

std::unique_ptr<dns_sd::Announcement> Advertise(
    const Config& config, const std::vector<std::string>& addresses,
    std::function<void(const std::string& line)> log) {
  const std::optional<uint16_t> port = AdvertisedPort(addresses);
  if (!config.advertise || !port) return nullptr;
  dns_sd::Announcement::Options options;
  options.port = *port;
  options.txt = AdvertisedFacts(config.tls_cert);
  options.log = std::move(log);
  return std::make_unique<dns_sd::Announcement>(dns_sd::SystemLibrary(),
                                                std::move(options));
}

}  // namespace mpsd
