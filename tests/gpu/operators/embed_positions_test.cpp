// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/embed_positions.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "gpu/cpu/kernels/embed_positions.hpp"
#include "gpu/cuda/kernels/embed.hpp"
#include "gpu/cuda/kernels/embed_positions.hpp"
#include "tests/gpu/operators/backends.hpp"

using namespace troupe;

namespace embed_positions_test {
namespace {

constexpr std::size_t kVocabulary = 10, kPositions = 7;

// Tables hold what the backend's type can.
struct Input {
  std::size_t width, num_types;
  std::vector<float> words, positions, types;
  std::vector<std::int32_t> token_ids = {3, 0, 9, -1, 10, 3};
  std::vector<std::uint32_t> token_positions = {0, 1, 2, 0, 1, 4};
  std::vector<std::uint8_t> token_types = {0, 0, 1, 0, 1, 1};
  std::uint32_t first_position = 2;
  bool comes_from_slots = false;  // on a GPU; all tokens but the second one were drawn into slots

  Input(const OperatorBackend& backend, std::size_t width, std::size_t num_types)
      : width(width),
        num_types(num_types),
        words(as_stored(backend.type, random_values(kVocabulary * width, 1))),
        positions(as_stored(backend.type, random_values(kPositions * width, 2))),
        types(as_stored(backend.type, random_values(num_types * width, 3))) {}
};

std::vector<float> on_cpu(const OperatorBackend& backend, const Input& input) {
  CpuBuffer words(backend.type, input.words), positions(backend.type, input.positions),
      types(backend.type, input.types);
  std::vector<float> x(input.token_ids.size() * input.width, 7.0F);
  const EmbedPositionsArguments arguments{.words = {words.data(), backend.type, kVocabulary},
                                          .positions = {positions.data(), backend.type, kPositions},
                                          .types = {types.data(), backend.type, input.num_types},
                                          .token_ids = input.token_ids,
                                          .token_positions = input.token_positions,
                                          .token_types = input.token_types,
                                          .first_position = input.first_position,
                                          .x = x.data(),
                                          .width = input.width,
                                          .isa = backend.isa};
  run_tasks(arguments, embed_positions_num_tasks(arguments), embed_positions_run_task);
  return x;
}

std::vector<float> on_gpu(const OperatorBackend& backend, const Input& input) {
  std::vector<TokenPlace> places;
  for (const std::uint32_t position : input.token_positions) places.push_back({.position = position});
  TypedBuffer words(backend.type, input.words), positions(backend.type, input.positions),
      types(backend.type, input.types);
  std::vector<std::int32_t> ids = input.token_ids, drawn(ids.rbegin(), ids.rend());
  std::vector<std::uint32_t> slots_of_tokens(ids.size(), cuda::kNoSlot);
  for (std::size_t i = 0; input.comes_from_slots && i < ids.size(); ++i) {
    if (i == 1) continue;
    slots_of_tokens[i] = static_cast<std::uint32_t>(ids.size() - 1 - i);
    ids[i] = 1;
  }
  DeviceArray<std::int32_t> token_ids(ids), tokens_of_slots(drawn);
  DeviceArray<std::uint32_t> slots(slots_of_tokens);
  DeviceArray<TokenPlace> token_places(places);
  DeviceArray<std::uint8_t> token_types(input.token_types);
  DeviceArray<float> x(std::vector<float>(input.token_ids.size() * input.width, 7.0F));
  cuda::launch_embed_positions({.words = words.data(),
                                .positions = positions.data(),
                                .types = types.data(),
                                .type = backend.type,
                                .vocabulary = kVocabulary,
                                .num_types = static_cast<std::uint32_t>(input.num_types),
                                .token_ids = token_ids.data(),
                                .slots = input.comes_from_slots ? slots.data() : nullptr,
                                .tokens_of_slots = tokens_of_slots.data(),
                                .places = token_places.data(),
                                .token_types = input.token_types.empty() ? nullptr : token_types.data(),
                                .first_position = input.first_position,
                                .x = x.data(),
                                .num_rows = static_cast<std::uint32_t>(input.token_ids.size()),
                                .width = static_cast<std::uint32_t>(input.width)},
                               nullptr);
  return x.values();
}

std::vector<float> run(const OperatorBackend& backend, const Input& input) {
  return backend.is_gpu ? on_gpu(backend, input) : on_cpu(backend, input);
}

std::vector<float> expected_of(const Input& input) {
  std::vector<float> x;
  for (std::size_t token = 0; token < input.token_ids.size(); ++token) {
    const std::int32_t id = input.token_ids[token];
    const bool is_word = id >= 0 && id < static_cast<std::int32_t>(kVocabulary);
    const std::size_t type = input.token_types.empty() ? 0 : input.token_types[token];
    for (std::size_t i = 0; i < input.width; ++i) {
      float sum = is_word ? input.words[static_cast<std::size_t>(id) * input.width + i] : 0.0F;
      if (input.num_types > 0) sum += input.types[std::min(type, input.num_types - 1) * input.width + i];
      x.push_back(sum +
                  input.positions[(input.first_position + input.token_positions[token]) * input.width + i]);
    }
  }
  return x;
}

}  // namespace

TEST_CASE("embed_positions: word, type and position are added in this order, to the bit") {
  on_every_backend([](const OperatorBackend& backend) {
    for (const std::size_t width : {1, 8, 19, 384}) {
      for (const std::size_t num_types : {0, 1, 2}) {
        CAPTURE(width);
        CAPTURE(num_types);
        const Input input(backend, width, num_types);
        CHECK(run(backend, input) == expected_of(input));
      }
    }
  });
}

TEST_CASE("embed_positions: on a GPU tokens that the host does not know yet come from their slots") {
  on_every_backend([](const OperatorBackend& backend) {
    Input input(backend, 19, 0);
    input.comes_from_slots = true;
    CHECK(run(backend, input) == expected_of(input));
  });
}

TEST_CASE("embed_positions: without types of tokens all are of the first, and no tokens are no work") {
  on_every_backend([](const OperatorBackend& backend) {
    Input input(backend, 19, 2);
    input.token_types.clear();
    CHECK(run(backend, input) == expected_of(input));
    input.token_ids.clear();
    input.token_positions.clear();
    CHECK(run(backend, input).empty());
  });
}

}  // namespace embed_positions_test
