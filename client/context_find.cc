// SPDX-License-Identifier: Apache-2.0
#include "client/context_find.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/text/table.h"
#include "client/tls/host_port.h"
#include "core/base/fingerprint.h"
#include "core/base/printable.h"
#include "core/dns_sd/library.h"

namespace mpsd::client {
namespace {

constexpr char kAdvice[] =
    "Log in with `mpsctl login ADDRESS`. Anybody in the network can say all "
    "of this: compare the CA with what `mpsd tls show` prints at the machine.";
constexpr char kOtherwise[] =
    "Name the daemon by its address: mpsctl login HOST:PORT, or --server "
    "ssh://USER@HOST.";

// What the service tells under `key`; empty: nothing.
std::string Fact(const dns_sd::Service& service, const char* key) {
  const auto fact = service.txt.find(key);
  return fact == service.txt.end() ? "" : fact->second;
}

std::string Version(const dns_sd::Service& service) {
  return base::Quotable(Fact(service, "version"));
}

// Empty for a text that is no fingerprint.
std::string Fingerprint(const dns_sd::Service& service) {
  return base::ParseFingerprint(Fact(service, "ca")).value_or("");
}

ExitCode Find(const Console& console, double seconds) {
  const dns_sd::Library* library = dns_sd::SystemLibrary();
  if (library == nullptr) {
    return console.Fail(ExitCode::kOther,
                        "this system does not tell of daemons in the network "
                        "(Debian: install avahi-daemon and "
                        "libavahi-compat-libdnssd1)",
                        kOtherwise);
  }
  const auto services = dns_sd::Search(*library, absl::Seconds(seconds));
  if (!services.ok()) {
    return console.Fail(ExitCode::kOther, services.status(), kOtherwise);
  }
  return PrintFound(console, *services);
}

}  // namespace

ExitCode PrintFound(const Console& console,
                    const std::vector<dns_sd::Service>& services) {
  Table table({"NAME", "ADDRESS", "VERSION", "CA"});
  int shown = 0, odd = 0;
  for (const dns_sd::Service& service : services) {
    const auto place =
        ParseHostPort(absl::StrCat(service.host, ":", service.port));
    if (!place.ok()) {
      ++odd;
      continue;
    }
    ++shown;
    const std::string name = base::Quotable(service.name);
    if (console.json) {
      const nlohmann::ordered_json line = {
          {"name", name},
          {"address", place->Text()},
          {"version", Version(service)},
          {"ca_fingerprint", Fingerprint(service)}};
      console.out << line.dump(-1, ' ', true,
                               nlohmann::json::error_handler_t::replace)
                  << '\n';
    } else {
      table.Add({name, place->Text(), Version(service), Fingerprint(service)});
    }
  }
  if (odd > 0) {
    console.err << "mpsctl: left out " << odd
                << " whose address is no host's name with a port\n";
  }
  if (shown == 0) {
    return console.Fail(ExitCode::kNotFound,
                        "no daemon in the local network tells of itself (mpsd "
                        "--advertise)",
                        kOtherwise);
  }
  if (!console.json) {
    table.Print(console.out, 0);
    console.err << kAdvice << '\n';
  }
  return ExitCode::kOk;
}

void AddContextFind(CLI::App& context, Action* action) {
  auto seconds = std::make_shared<double>(3);
  CLI::App* verb = context.add_subcommand(
      "find", "Show the daemons that the local network tells of");
  verb->add_option("--seconds", *seconds, "How long to listen")
      ->check(CLI::Range(0.1, 60.0))
      ->capture_default_str();
  verb->callback([=] {
    *action = [=](const Console& console) { return Find(console, *seconds); };
  });
}

}  // namespace mpsd::client
