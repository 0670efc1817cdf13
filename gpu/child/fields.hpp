// SPDX-License-Identifier: Apache-2.0
// Fields of each plain struct that travel to and from a child process: all of them, in
// this order. The one list there is, for both directions. A field that is
// missing here does not compile: a structured binding names them all.
#pragma once

#include <cstdint>
#include <tuple>

#include "gpu/backend.hpp"
#include "gpu/data_type.hpp"
#include "gpu/device.hpp"
#include "gpu/program/batch.hpp"

namespace troupe::child {

// The fields of a struct, as a tuple of references: tie_fields(batch).
template <class T>
struct Fields {
  static constexpr bool kAreListed = false;
};

#define TROUPE_FIELDS(Type, ...)             \
  template <>                                \
  struct Fields<Type> {                      \
    static constexpr bool kAreListed = true; \
    static constexpr auto tie(auto& value) { \
      auto& [__VA_ARGS__] = value;           \
      return std::tie(__VA_ARGS__);          \
    }                                        \
  };

TROUPE_FIELDS(LinkSettings, bytes_per_second, latency)
TROUPE_FIELDS(BackendSettings, model_dir, compute_type, memory_budget_bytes, num_slots, max_batch_tokens,
              max_pages, max_in_flight, deterministic, quantization, kv_type, activations, num_threads,
              num_devices, cpus, link, kept_weights, kept_weights_bytes, ordinal, completion, uses_graphs,
              gemm_choices, shipped_gemm_choices)
TROUPE_FIELDS(MemoryRequest, weight_bytes, table_bytes, arena_bytes, workspace_bytes, graph_bytes, page_bytes,
              slot_bytes, page_size, num_slots, context_length, max_pages, budget_bytes)
TROUPE_FIELDS(MemoryPlan, request, num_pages, slots_bytes, kv_bytes, total_bytes)
TROUPE_FIELDS(BackendPlan, memory, compute_type, context_length, num_gpus, max_in_flight, device, computation,
              summary)
TROUPE_FIELDS(CellType, name, state, result, vector_size, priority)
TROUPE_FIELDS(DeviceDescription, name, page_size, num_pages, num_host_pages, num_slots, max_batch_tokens,
              context_length, vocabulary_size, max_penalized_tokens, cells, waits_for_masks, hands_out_states)
TROUPE_FIELDS(SamplingParameters, temperature, top_p, min_p, top_k, seed, repetition_penalty,
              frequency_penalty, presence_penalty, top_logprobs)
TROUPE_FIELDS(PenalizedToken, id, num_generated)
TROUPE_FIELDS(TokenBias, id, bias)
TROUPE_FIELDS(SequenceSlice, sequence, slot, num_tokens, context_length, first_page, num_pages,
              input_from_slot, sample, sampling, suppressed, penalized, num_pending, biased, allowed,
              scored_token, wants_state, second_text, num_padding, source_tokens, first_input, num_inputs)
TROUPE_FIELDS(PageCopy, direction, device_page, host_page, from_page, generation)
TROUPE_FIELDS(RankedToken, id, logprob)
TROUPE_FIELDS(TokenLogprobs, logprob, top)
TROUPE_FIELDS(BatchResult, batch_id, tokens, logprobs, vectors, states, failed_loads, mask_wait_nanoseconds,
              mask_sleep_nanoseconds, network_nanoseconds, error)

// Masks that are not there yet stay here: no device in another process waits for them.
template <>
struct Fields<Batch> {
  static constexpr bool kAreListed = true;
  static constexpr auto tie(auto& value) {
    auto& [id, cell, copies, slices, token_ids, page_table, input_rows, awaited_masks] = value;
    return std::tie(id, cell, copies, slices, token_ids, page_table, input_rows);
  }
};

// The largest value of an enumeration.
template <class T>
inline constexpr T kLast = T{};
template <>
inline constexpr DataType kLast<DataType> = DataType::kI32;
template <>
inline constexpr Quantization kLast<Quantization> = Quantization::kQ4;
template <>
inline constexpr KvType kLast<KvType> = KvType::kQ8;
template <>
inline constexpr Activations kLast<Activations> = Activations::kQ8;
template <>
inline constexpr PageCopy::Direction kLast<PageCopy::Direction> = PageCopy::kWithin;
template <>
inline constexpr StateKind kLast<StateKind> = StateKind::kRows;
template <>
inline constexpr ResultKind kLast<ResultKind> = ResultKind::kState;
template <>
inline constexpr CompletionSignal kLast<CompletionSignal> = CompletionSignal::kEvent;

}  // namespace troupe::child
