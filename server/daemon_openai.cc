// SPDX-License-Identifier: Apache-2.0
// What the daemon does for OpenAI's API: the files that clients send by name,
// and the door.
#include <string>
#include <utility>

#include "server/daemon.h"
#include "server/http_doors.h"
#include "server/listen_rules.h"
#include "server/log.h"
#include "server/rpc/model_calls.h"

namespace mpsd {

absl::Status Daemon::OpenNamedFiles() {
  absl::StatusOr<std::unique_ptr<store::NamedFileStore>> named =
      store::NamedFileStore::Open(*database_, *blob_store_,
                                  config_.state_dir / "files");
  if (!named.ok()) return named.status();
  named_files_ = *std::move(named);
  return absl::OkStatus();
}

absl::Status Daemon::OpenOpenAi() {
  HttpDoor door{"OpenAI's API", "--openai-listen", config_.openai_listen};
  if (!config_.tls_cert.empty() && IsPort(door.address)) {
    door.tls = {config_.tls_cert, config_.tls_key};
  }
  absl::StatusOr<std::unique_ptr<http::Server>> server =
      OpenHttpDoor(door, LineTo(log_, spdlog::level::warn));
  if (!server.ok()) return server.status();
  openai_server_ = *std::move(server);
  return absl::OkStatus();
}

void Daemon::ServeOpenAi() {
  if (!openai_server_) return;
  openai::Backend backend{*scheduler_, *board_, *blob_store_, *blob_store_,
                          *named_files_};
  backend.callers.tokens = tokens_.get();
  backend.accounts = {&user_limits_, ledger_.get()};
  backend.audit = audit_.get();
  backend.calls = &daemon_metrics_->rpc();
  backend.private_jobs = config_.private_jobs;
  backend.list_models = [this](const access::Rights& rights,
                               const v1::ListModelsRequest& request,
                               v1::ListModelsResponse& response) {
    return rpc::ListModels(*model_book_, *board_, rights, request, response);
  };
  backend.make_room = [this] { return job_files_->MakeRoom(); };
  backend.log = LineTo(log_, spdlog::level::err);
  openai_door_ = std::make_unique<openai::Door>(std::move(backend));
  openai_server_->Serve(*openai_door_);
}

void Daemon::RenewOpenAi() {
  if (!openai_server_) return;
  if (const absl::Status read = openai_server_->Reload(); !read.ok()) {
    log_->error("SIGHUP: OpenAI's API keeps its certificate: {}",
                std::string(read.message()));
  }
}

}  // namespace mpsd
