// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_OPENAI_MODEL_CALLS_H_
#define MPSD_SERVER_OPENAI_MODEL_CALLS_H_

#include <string>

#include "server/http/message.h"
#include "server/openai/desk.h"

namespace mpsd::openai {

// The calls of /v1/models: the models that jobs can name (ModelService.
// ListModels), and the results of the caller's latest jobs, from which a job
// can go on.
http::Response ListModels(const Desk& desk, const http::Request& request);
http::Response GetModel(const Desk& desk, const http::Request& request,
                        const std::string& name);

}  // namespace mpsd::openai

#endif  // MPSD_SERVER_OPENAI_MODEL_CALLS_H_
