// SPDX-License-Identifier: Apache-2.0
// Binary trees over the words of a prompt, for models that classify trees. The same shape,
// words and random numbers make the same tree, live and simulated.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "loadgen/workload/random_source.hpp"

namespace troupe::loadgen {

// kParsed: as deep as parsed sentences; kComplete: each node halves its words.
enum class TreeShape : std::uint8_t { kNone, kParsed, kComplete };

// "none", "parsed", "complete"; nullopt: none of these.
std::string_view name_of(TreeShape shape);
std::optional<TreeShape> tree_shape_from_name(std::string_view name);

// The inner nodes, each behind its children, the root last. Words are nodes [0, num_words),
// inner nodes follow; one word has none. num_words >= 1, shape is not kNone.
std::vector<std::array<std::uint32_t, 2>> inner_nodes(TreeShape shape, std::uint32_t num_words,
                                                      RandomSource random);

}  // namespace troupe::loadgen
