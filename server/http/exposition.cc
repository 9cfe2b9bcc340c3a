// SPDX-License-Identifier: Apache-2.0
#include "server/http/exposition.h"

#include <prometheus/text_serializer.h>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "server/http/families.h"
#include "server/http/names.h"

namespace mpsd::prometheus {
namespace {

using ::prometheus::MetricFamily;

// The error with its option. mpsd runs without metrics only if the address is
// taken.
absl::Status Explained(const absl::Status& status) {
  const char* help =
      " (--metrics-address, --metrics-tls-cert, --metrics-tls-key and "
      "--metrics-token-file say how metrics are served)";
  if (absl::IsUnavailable(status)) {
    help = " (choose another --metrics-address, or off)";
  }
  return absl::Status(status.code(),
                      absl::StrCat("metrics: ", status.message(), help));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Exposition>> Exposition::Start(
    http::Server::Options options, Sources sources) {
  absl::StatusOr<std::unique_ptr<http::Server>> server =
      http::Server::Open(std::move(options));
  if (!server.ok()) return Explained(server.status());
  auto exposition =
      absl::WrapUnique(new Exposition(std::move(sources), *std::move(server)));
  exposition->server_->Serve(
      [raw = exposition.get()](const http::Request& request) {
        return raw->Answer(request);
      });
  return exposition;
}

http::Response Exposition::Answer(const http::Request& request) const {
  const std::string path = request.target.substr(0, request.target.find('?'));
  if (path == "/healthz") return {.body = "ok\n"};
  if (path != "/metrics") {
    return {.status = 404, .body = "the metrics are at /metrics\n"};
  }
  std::vector<MetricFamily> families;
  for (const ::prometheus::Collectable* source : sources_) {
    for (MetricFamily& family : source->Collect()) {
      families.push_back(std::move(family));
    }
  }
  if (const std::optional<absl::Time> expiry = server_->certificate_expiry()) {
    families.push_back(SingleValue(
        kCertificateExpiry, static_cast<double>(absl::ToUnixSeconds(*expiry))));
  }
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
          .body = ::prometheus::TextSerializer().Serialize(families)};
}

}  // namespace mpsd::prometheus
