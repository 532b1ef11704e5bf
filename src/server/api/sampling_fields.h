// The fields of a request that say how an answer is sampled and where it ends, which the protocols have in common.
#pragma once

#include "server/api/endpoint.h"
#include "server/api/json.h"

namespace strata::server {

inline constexpr int64_t kMaxAnswers = 16;      // "n": each has a copy of the prompt
inline constexpr int64_t kMaxJobs = 128;        // answers of one request
inline constexpr int64_t kMaxTopLogprobs = 20;  // per token

// What a request says of the sampler (docs/API.md lists it), over the model's defaults. Where no seed is given it is
// made from `nonce`.
ApiResult<engine::RequestParams> read_sampling(const Fields& fields, const ServedModel& model, uint64_t nonce);

// A string or an array of strings under `key`. Empty ones are dropped.
ApiResult<std::vector<std::string>> read_stops(const Fields& fields, std::string_view key);

// Fields that change what a client expects of the answer and that this server does not have: 400 for each.
ApiStatus refuse_unknown_powers(const Fields& fields);

// `count` answers to one prompt, each with a seed of its own. Prompt and answer together have at most as many tokens as
// the model's context; a prompt that fills it gets one more, which needs no room.
std::vector<GenerationJob> make_jobs(std::vector<int32_t> prompt, const engine::RequestParams& params, int64_t count,
                                     const ServedModel& model);

// 400 for a prompt that leaves no room for an answer. `message` is in the words of the protocol's own server.
ApiStatus check_room(size_t n_prompt, const ServedModel& model, std::string_view param);

}  // namespace strata::server
