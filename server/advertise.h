// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_ADVERTISE_H_
#define MPSD_SERVER_ADVERTISE_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/dns_sd/announcement.h"
#include "core/dns_sd/txt_record.h"
#include "server/config.h"

namespace mpsd {

// The first port among `addresses` that other machines reach.
std::optional<uint16_t> AdvertisedPort(
    const std::vector<std::string>& addresses);

// What the network is told beside the port: `version`, and as `ca` the
// fingerprint of the last certificate of `chain` (PEM), which is the CA's;
// nothing of a file that is not there or cannot be read.
dns_sd::TxtRecord AdvertisedFacts(const std::filesystem::path& chain);

// Begins to tell the local network of mpsd, which is served on `addresses`.
// Null where --advertise is not given. Whatever fails is a line in the log.
std::unique_ptr<dns_sd::Announcement> Advertise(
    const Config& config, const std::vector<std::string>& addresses,
    std::function<void(const std::string& line)> log);

}  // namespace mpsd

#endif  // MPSD_SERVER_ADVERTISE_H_
