// SPDX-License-Identifier: Apache-2.0
// A request as the core knows it: token ids and how to go on from them. Immutable
// once it is admitted.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/program/batch.hpp"
#include "policy/pages/cache_quotas.hpp"
#include "policy/pages/page_copy.hpp"
#include "policy/unfolding/cell_graph.hpp"
#include "telemetry/tracing/trace_context.hpp"

namespace troupe {

// The engine's number of a request; the core's sequence has the same one.
using SequenceId = std::uint64_t;
// Which of the server's models, in the order in which they were given.
using ModelIndex = std::uint32_t;
// Which of the machine's workers. It stays when the worker is started anew.
using WorkerId = WorkerIndex;
// Counts the devices that were started, over all workers: one incarnation of a
// worker. Results of an older one are void.
using Epoch = std::uint64_t;

struct AdmissionTicket {
  SequenceId sequence = 0;
  ModelIndex model = 0;
  std::vector<std::int32_t> prompt;
  // The beginning of the answer, which an earlier process has drawn: these tokens are
  // reported anew when the sequence first runs, and it goes on behind them.
  std::vector<std::int32_t> drawn;
  SamplingParameters sampling;
  std::optional<std::uint32_t> max_tokens;
  std::uint32_t min_tokens = 0;
  std::vector<std::int32_t> end_tokens;        // end the sequence when drawn
  std::vector<std::int32_t> suppressed_early;  // not drawn before min_tokens
  std::vector<TokenBias> biased;               // each id once, at most kMaxBiases
  // A guided sequence: its first token is one of these, and each further one, or the one
  // behind `drawn`, is drawn when AllowTokens has said of which. Null: any token, always.
  std::shared_ptr<const TokenMask> allowed_first;
  std::shared_ptr<const TokenMask> free_first = {};  // of allowed_first, as AllowTokens::free
  // With a repetition penalty: the prompt's token ids, each once, ascending.
  std::vector<std::int32_t> repeated_prompt;
  // The client foretells the length of its answer. It ends when it ends: only memory is set aside by it.
  std::optional<std::uint32_t> foretold_tokens;
  // In a simulation: the answer ends behind so many tokens, as if by an end token.
  std::optional<std::uint32_t> answer_tokens;
  bool scores_prompt = false;  // log-probabilities of the prompt's tokens, too
  // A search over answers wants one token behind `drawn`, a beginning that it knows: that is not reported,
  // and the length says nothing of answers'.
  bool is_search_step = false;
  std::string cache_salt;
  CacheQuota cache_quota;                  // of whose salt it is
  bool has_begun = false;                  // another sequence of its request had its turn
  std::uint32_t second_text = 0;           // so, too: as SequenceSlice::second_text
  std::string flow;                        // takes turns with other flows (policy/admitting/fair_queue.hpp)
  std::shared_ptr<const CellGraph> graph;  // of a model of cells; null: it follows from the prompt
  TraceContext trace;                      // valid: the spans of its iterations are to link to it
};

}  // namespace troupe
