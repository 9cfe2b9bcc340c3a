// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_PULL_STREAM_H_
#define MPSD_SERVER_RPC_PULL_STREAM_H_

#include <functional>
#include <memory>
#include <string>

#include "mpsd/v1/models.pb.h"
#include "server/access/rules.h"
#include "server/models/model_book.h"
#include "server/rpc/source_stream.h"

namespace mpsd::rpc {

// Implements ModelService.Pull: begins or joins the pull at the first call of
// Next, and reports its progress. A null `puller`: pulls are off. `limits`: the
// caller's. `describe` fills in the model of an id for the last message.
using DescribeModel = std::function<void(const std::string& id, v1::Model&)>;
std::unique_ptr<Source<v1::PullModelProgress>> MakePullSource(
    models::Puller* puller, const access::Rights& rights,
    const jobs::UserLimits& limits, const v1::PullModelRequest& request,
    DescribeModel describe, Wake wake);

// Implements ModelService.CancelPull.
absl::Status CancelPull(models::Puller* puller, const access::Rights& rights,
                        const v1::CancelPullRequest& request);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_PULL_STREAM_H_
