// SPDX-License-Identifier: Apache-2.0
#include "server/openai/model_calls.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "server/openai/objects.h"
#include "server/rpc/job_calls.h"

namespace mpsd::openai {
namespace {

constexpr access::Method kMethod = "ModelService.ListModels";

absl::StatusOr<v1::ListModelsResponse> ModelsNamed(const Desk& desk,
                                                   const access::Rights& rights,
                                                   const std::string& name) {
  v1::ListModelsResponse found;
  if (!desk.backend().list_models) return found;
  v1::ListModelsRequest request;
  request.set_name(name);
  absl::Status listed = desk.backend().list_models(rights, request, found);
  if (!listed.ok()) return listed;
  return found;
}

absl::Status AddResults(const Desk& desk, const access::Rights& rights,
                        Json::array_t& out) {
  jobs::ListFilter filter;
  filter.states = {jobs::State::kSucceeded};
  filter.owner = rights.caller().user;
  filter.limit = limits::kOpenAiPage;
  filter.summaries = true;
  const absl::StatusOr<std::vector<jobs::Job>> found =
      desk.backend().reader.List(filter);
  if (!found.ok()) return found.status();
  for (const jobs::Job& job : *found) {
    v1::Job shown;
    rpc::FillJob(desk.backend().reader, rights, job, shown);
    out.push_back(ModelObject(shown));
  }
  return absl::OkStatus();
}

absl::Status NoSuchModel(const std::string& name) {
  return absl::NotFoundError(absl::StrCat(
      "there is no model '", base::Quotable(name),
      "' here: list the models, or bring it by mpsctl model push"));
}

absl::Status FindResult(const Desk& desk, const access::Rights& rights,
                        const std::string& name, Json& object) {
  v1::GetJobRequest request;
  request.set_id(JobOfModel(name));
  v1::Job job;
  absl::Status found = rpc::GetJob(desk.backend().reader, rights, request, job);
  if (!found.ok()) return found;
  if (job.state() != v1::JOB_STATE_SUCCEEDED || !rights.MayRead(job.owner())) {
    return NoSuchModel(name);
  }
  object = ModelObject(job);
  return absl::OkStatus();
}

absl::Status FindModel(const Desk& desk, const access::Rights& rights,
                       const std::string& name, Json& object) {
  const absl::StatusOr<v1::ListModelsResponse> models =
      ModelsNamed(desk, rights, name);
  if (!models.ok()) return models.status();
  for (const v1::Model& model : models->models()) {
    if (model.name() != name) continue;
    object = ModelObject(model);
    return absl::OkStatus();
  }
  return NoSuchModel(name);
}

}  // namespace

http::Response ListModels(const Desk& desk, const http::Request& request) {
  Json::array_t listed;
  const absl::Status made = desk.Call(request, {kMethod}, [&](rpc::Call& call) {
    const absl::StatusOr<v1::ListModelsResponse> models =
        ModelsNamed(desk, call.rights, "");
    if (!models.ok()) return models.status();
    for (const v1::Model& model : models->models()) {
      listed.push_back(ModelObject(model));
    }
    return AddResults(desk, call.rights, listed);
  });
  return made.ok() ? ListAnswer(std::move(listed), /*has_more=*/false)
                   : ErrorAnswer(made);
}

http::Response GetModel(const Desk& desk, const http::Request& request,
                        const std::string& name) {
  Json object;
  const absl::Status made = desk.Call(request, {kMethod}, [&](rpc::Call& call) {
    return JobOfModel(name).empty()
               ? FindModel(desk, call.rights, name, object)
               : FindResult(desk, call.rights, name, object);
  });
  return made.ok() ? JsonAnswer(object) : ErrorAnswer(made);
}

}  // namespace mpsd::openai
