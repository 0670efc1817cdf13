// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/attention/paged_attention.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>

#include "tests/gpu/cuda/kernels/typed_buffer.hpp"

using namespace troupe;

namespace {

struct Shape {
  std::uint32_t group, kv_heads;
  std::size_t head_dim;
  DataType type;
  std::size_t query_width() const { return group * kv_heads * head_dim; }
};

// A context and the tokens that are computed now.
struct Range {
  std::uint32_t context, tokens, sequence;
};

// Sequences of some lengths with random keys and values in shuffled pages; what
// was never written is NaN.
class Pool {
 public:
  Pool(const Shape& shape, const std::vector<std::size_t>& lengths) {
    std::size_t num_pages = 0;
    for (const auto length : lengths) {
      first_page.push_back(static_cast<std::uint32_t>(num_pages));
      num_pages += (length + 31) / 32;
    }
    layout = {.num_layers = 2,
              .num_pages = num_pages + 1,
              .num_kv_heads = shape.kv_heads,
              .head_dim = shape.head_dim,
              .type = shape.type};
    numbers.assign(kv_pool_bytes(layout) / size_of(shape.type), std::numeric_limits<float>::quiet_NaN());
    for (std::uint32_t i = 0; i < num_pages; ++i) page_table.push_back(i);
    std::mt19937 random(3);
    std::shuffle(page_table.begin(), page_table.end(), random);
    const std::size_t width = shape.head_dim * shape.kv_heads;
    for (std::uint32_t s = 0; s < lengths.size(); ++s) {
      const auto keys = as_stored(shape.type, random_values(lengths[s] * width, 10 + s));
      const auto values = as_stored(shape.type, random_values(lengths[s] * width, 20 + s));
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const auto head = i % width / shape.head_dim, d = i % shape.head_dim;
        numbers[key_index(s, i / width, head, d)] = keys[i];
        numbers[value_index(s, i / width, head, d)] = values[i];
      }
    }
  }

  std::size_t key_index(std::uint32_t s, std::size_t token, std::size_t head, std::size_t d) const {
    return block(s, token, head) + kv_key_element(layout, token % 32, d);
  }
  std::size_t value_index(std::uint32_t s, std::size_t token, std::size_t head, std::size_t d) const {
    return block(s, token, head) + kv_value_element(layout, token % 32, d);
  }

  KvLayout layout;
  std::vector<float> numbers;
  std::vector<PageId> page_table;
  std::vector<std::uint32_t> first_page;

 private:
  std::size_t block(std::uint32_t s, std::size_t token, std::size_t head) const {
    return kv_block_offset(layout, 1, page_table[first_page[s] + token / 32], head) / size_of(layout.type);
  }
};

struct Options {
  std::uint32_t window = 0;
  bool is_planned = true;  // else the plan knows nothing of the window
  std::uint32_t split_tokens = 64;
  bool has_tiles = false;
  std::uint32_t tile_split_tokens = 4096;
  float query_scale = 1.0F;
  std::uint32_t num_idle_blocks = 0;  // launched besides those with an item or merge
  std::uint32_t max_partials = 1U << 20;
};

std::vector<float> attend(const Shape& shape, const Pool& pool, const std::vector<Range>& ranges,
                          const std::vector<float>& queries, const Options& options = {}) {
  std::vector<SequenceSlice> slices(ranges.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    slices[i].num_tokens = ranges[i].tokens;
    slices[i].context_length = ranges[i].context;
    slices[i].first_page = pool.first_page[ranges[i].sequence];
  }
  const auto plan = cuda::plan_attention(slices, {.group_size = shape.group,
                                                  .split_tokens = options.split_tokens,
                                                  .tile_split_tokens = options.tile_split_tokens,
                                                  .window = options.is_planned ? options.window : 0,
                                                  .has_tiles = options.has_tiles,
                                                  .max_partials = options.max_partials});
  DeviceArray<cuda::AttentionItem> items[] = {DeviceArray(plan.items[0]), DeviceArray(plan.items[1]),
                                              DeviceArray(plan.items[2]), DeviceArray(plan.items[3])};
  DeviceArray<cuda::AttentionMerge> merges(plan.merges);
  cuda::DeviceAttentionPlan device_plan{.merges = merges.data()};
  cuda::AttentionCounts counts{.merges = static_cast<std::uint32_t>(plan.merges.size())};
  for (std::size_t c = 0; c < plan.items.size(); ++c) {
    device_plan.items[c] = items[c].data();
    counts.items[c] = static_cast<std::uint32_t>(plan.items[c].size());
  }
  DeviceArray<cuda::AttentionCounts> device_counts({counts});
  if (options.num_idle_blocks > 0) device_plan.counts = device_counts.data();
  TypedBuffer memory(shape.type, pool.numbers), device_queries(shape.type, queries),
      attended(shape.type, std::vector<float>(queries.size(), 7.0F));
  DeviceArray<PageId> page_table(pool.page_table);
  DeviceArray<float> partials(
      std::vector<float>(cuda::attention_partial_floats(pool.layout, plan.num_partials), NAN));
  for (const auto& round : plan.rounds) {
    for (std::size_t c = 0; c < plan.items.size(); ++c)
      device_plan.num_items[c] = round.num_items[c] + options.num_idle_blocks;
    device_plan.num_merges = round.num_merges + options.num_idle_blocks;
    cuda::launch_paged_attention({.page_table = page_table.data(),
                                  .pool = static_cast<const std::byte*>(memory.data()),
                                  .layout = pool.layout,
                                  .layer = 1,
                                  .group_size = shape.group,
                                  .window = options.window,
                                  .scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim)),
                                  .queries = device_queries.data(),
                                  .query_stride = shape.query_width(),
                                  .attended = attended.data(),
                                  .attended_stride = shape.query_width(),
                                  .partials = partials.data()},
                                 device_plan, nullptr);
    for (std::size_t c = 0; c < plan.items.size(); ++c) device_plan.items[c] += round.num_items[c];
    device_plan.merges += round.num_merges;
  }
  return attended.values();
}

// One row in f64.
std::vector<double> reference_row(const Shape& shape, const Pool& pool, std::uint32_t sequence,
                                  std::uint32_t position, std::size_t head, const float* query,
                                  std::uint32_t window) {
  const std::size_t kv_head = head / shape.group;
  const std::size_t first = window != 0 && position + 1 > window ? position + 1 - window : 0;
  std::vector<double> weights, result(shape.head_dim);
  for (std::size_t t = first; t <= position; ++t) {
    double score = 0.0;
    for (std::size_t d = 0; d < shape.head_dim; ++d) {
      score += double{query[d]} * pool.numbers[pool.key_index(sequence, t, kv_head, d)];
    }
    weights.push_back(score / std::sqrt(static_cast<double>(shape.head_dim)));
  }
  const double highest = *std::max_element(weights.begin(), weights.end());
  double total = 0.0;
  for (auto& weight : weights) total += weight = std::exp(weight - highest);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    for (std::size_t d = 0; d < shape.head_dim; ++d) {
      result[d] += weights[i] / total * pool.numbers[pool.value_index(sequence, first + i, kv_head, d)];
    }
  }
  return result;
}

double worst_against_f64(const Shape& shape, const Pool& pool, const std::vector<Range>& ranges,
                         const Options& options = {}) {
  std::size_t num_tokens = 0;
  for (const auto& range : ranges) num_tokens += range.tokens;
  const auto queries =
      as_stored(shape.type, random_values(num_tokens * shape.query_width(), 99, options.query_scale));
  const auto attended = attend(shape, pool, ranges, queries, options);
  double worst = 0.0;
  std::size_t at = 0;
  for (const auto& range : ranges) {
    for (std::uint32_t t = 0; t < range.tokens; ++t) {
      for (std::size_t head = 0; head < shape.group * shape.kv_heads; ++head) {
        const auto expected =
            reference_row(shape, pool, range.sequence, range.context + t, head, &queries[at], options.window);
        for (const double value : expected) {
          const double error = std::abs(attended[at++] - value) / std::max(1.0, std::abs(value));
          worst = std::max(worst, std::isnan(error) ? 1e9 : error);
        }
      }
    }
  }
  return worst;
}

const Shape kShapes[] = {{1, 2, 8, DataType::kF32},    {4, 1, 64, DataType::kBF16},
                         {3, 2, 24, DataType::kF32},   {8, 1, 128, DataType::kBF16},
                         {11, 1, 40, DataType::kBF16}, {2, 1, 256, DataType::kF32},
                         {1, 1, 80, DataType::kBF16},  {5, 1, 48, DataType::kF16}};

// The rows of a prompt of 70 tokens, at once and in chunks behind another sequence's decode.
void check_chunks(const Shape& shape, const Pool& pool, const Options& options) {
  const std::size_t width = shape.query_width();
  const auto queries = random_values(71 * width, 5);
  const std::vector<float> prompt(queries.begin(), queries.end() - width);
  const auto whole = attend(shape, pool, {{0, 70, 0}}, prompt, options);
  for (const std::uint32_t chunk : {1U, 7U, 33U}) {
    for (std::uint32_t begin = 0; begin < 70; begin += chunk) {
      const std::uint32_t tokens = std::min(chunk, 70 - begin);
      std::vector<float> part(queries.end() - width, queries.end());
      part.insert(part.end(), queries.begin() + begin * width, queries.begin() + (begin + tokens) * width);
      const auto attended = attend(shape, pool, {{129, 1, 1}, {begin, tokens, 0}}, part, options);
      REQUIRE(same_bits(&whole[begin * width], &attended[width], tokens * width));
    }
  }
}

}  // namespace

TEST_CASE("cuda attention: prefill and decode together equal f64") {
  for (const auto& shape : kShapes) {
    CAPTURE(shape.head_dim);
    // A prefill, a decode at a page's end behind a split, a chunk across pages,
    // a sequence of one token.
    const Pool pool(shape, {9, 96, 41, 1});
    CHECK(worst_against_f64(shape, pool, {{0, 9, 0}, {95, 1, 1}, {30, 11, 2}, {0, 1, 3}}) <
          rounding_of(shape.type) + 4e-6);
  }
}

TEST_CASE("cuda attention: a warp's later pages join what it has of the earlier ones") {
  for (const auto& shape : {kShapes[1], kShapes[2]}) {
    const Pool pool(shape, {400});
    for (const std::uint32_t split_tokens : {256U, 512U}) {
      CHECK(worst_against_f64(shape, pool, {{399, 1, 0}, {290, 3, 0}}, {.split_tokens = split_tokens}) <
            rounding_of(shape.type) + 4e-6);
    }
  }
}

TEST_CASE("cuda attention: scores that lie hundreds apart neither overflow nor vanish") {
  const Shape shape{3, 1, 24, DataType::kF32};
  const Pool pool(shape, {400});
  CHECK(worst_against_f64(shape, pool, {{399, 1, 0}, {100, 2, 0}},
                          {.split_tokens = 512, .query_scale = 100.0F}) < 1e-3);
}

TEST_CASE("cuda attention: in f16, scores and sums may be larger than f16 holds") {
  const Shape shape{3, 1, 64, DataType::kF16};
  const Pool pool(shape, {100});
  for (const bool has_tiles : {false, true}) {
    CHECK(worst_against_f64(shape, pool, {{99, 1, 0}, {20, 6, 0}},
                            {.has_tiles = has_tiles, .query_scale = 12000.0F}) < 4e-3);
  }
}

TEST_CASE("cuda attention: any order of threads and blocks gives the same") {
  const Shape shape{4, 2, 32, DataType::kBF16};
  const Pool pool(shape, {200});
  in_several_orders([&] {
    CHECK(worst_against_f64(shape, pool, {{199, 1, 0}, {60, 3, 0}}) < rounding_of(shape.type));
  });
}

TEST_CASE("cuda attention: two ranges of one context, as after a hole was filled") {
  const Shape shape{2, 1, 16, DataType::kF32};
  const Pool pool(shape, {150});
  CHECK(worst_against_f64(shape, pool, {{33, 5, 0}, {140, 10, 0}}) < 4e-6);
}

TEST_CASE("cuda attention: a sliding window hides what is too far back") {
  const Shape shape{4, 1, 16, DataType::kF32};
  const Pool pool(shape, {150, 20});
  for (const std::uint32_t window : {1U, 7U, 32U, 100U, 4096U}) {
    CAPTURE(window);
    CHECK(worst_against_f64(shape, pool, {{149, 1, 0}, {60, 9, 0}, {0, 20, 1}}, {.window = window}) < 4e-6);
  }
}

TEST_CASE("cuda attention: a window that the plan of all layers does not know hides as much") {
  const Shape few{4, 1, 16, DataType::kF32}, tiles{2, 1, 64, DataType::kBF16};
  // With the window of 40, the last rows of two warps just don't see a page's first key.
  const std::vector<Range> ranges = {{149, 1, 0}, {57, 73, 0}, {0, 20, 1}};
  const Pool pool(few, {150, 20}), pool_of_tiles(tiles, {150, 20});
  for (const std::uint32_t window : {1U, 7U, 32U, 40U, 100U}) {  // items of 64 and 32 tokens see nothing
    CAPTURE(window);
    CHECK(worst_against_f64(few, pool, ranges, {.window = window, .is_planned = false}) < 4e-6);
    CHECK(worst_against_f64(
              tiles, pool_of_tiles, ranges,
              {.window = window, .is_planned = false, .has_tiles = true, .tile_split_tokens = 32}) < 0.02);
  }
}

TEST_CASE("cuda attention: a row has the same bits however the prompt is chunked and batched") {
  for (const Shape& shape : {Shape{4, 1, 32, DataType::kF32}, Shape{1, 2, 16, DataType::kBF16}}) {
    const Pool pool(shape, {70, 130});
    for (const Options& options : {Options{}, Options{.window = 5}, Options{.window = 5, .is_planned = false},
                                   Options{.window = 40}}) {
      CAPTURE(options.window);
      check_chunks(shape, pool, options);
    }
  }
}

TEST_CASE("cuda attention: rows have the same bits when partial results are made in rounds") {
  const Shape shape{4, 2, 64, DataType::kBF16};
  const Pool pool(shape, {200, 130, 180});
  const std::vector<Range> ranges = {{199, 1, 0}, {129, 1, 1}, {150, 30, 2}};
  const auto queries = random_values(32 * shape.query_width(), 5);
  for (const bool has_tiles : {false, true}) {
    const Options at_once{.has_tiles = has_tiles, .tile_split_tokens = 64};
    const auto whole = attend(shape, pool, ranges, queries, at_once);
    for (const std::uint32_t max_partials : {1U, 20U, 100U}) {
      Options in_rounds = at_once;
      in_rounds.max_partials = max_partials;
      const auto attended = attend(shape, pool, ranges, queries, in_rounds);
      CHECK(same_bits(whole.data(), attended.data(), whole.size()));
    }
  }
}

TEST_CASE("cuda attention: tiles on tensor cores equal f64") {
  for (const Shape& shape : {Shape{4, 1, 64, DataType::kBF16}, Shape{3, 2, 128, DataType::kBF16},
                             Shape{2, 1, 64, DataType::kF16}, Shape{2, 1, 128, DataType::kF16}}) {
    const Pool pool(shape, {90, 40, 33});
    const Options options{.has_tiles = true};
    // Weights are rounded too.
    const double allowed = 2 * rounding_of(shape.type);
    CHECK(worst_against_f64(shape, pool, {{0, 19, 1}, {32, 1, 2}, {64, 17, 0}}, options) < allowed);
    // A warp whose last row is the first token of a page.
    CHECK(worst_against_f64(shape, pool, {{61, 4, 0}}, options) < allowed);
    const Options split{.has_tiles = true, .tile_split_tokens = 32};
    CHECK(worst_against_f64(shape, pool, {{60, 21, 0}}, split) < allowed);
    const Options windowed{.window = 20, .has_tiles = true};
    CHECK(worst_against_f64(shape, pool, {{50, 20, 0}}, windowed) < allowed);
  }
}

TEST_CASE("cuda attention: tiles give a row the same bits whatever shares its tile") {
  const Shape shape{4, 1, 64, DataType::kBF16};
  const Pool pool(shape, {70});
  const std::size_t width = shape.query_width();
  const auto queries = random_values(40 * width, 5);
  const Options options{.has_tiles = true, .tile_split_tokens = 64};
  const auto whole = attend(shape, pool, {{30, 40, 0}}, queries, options);
  for (const std::uint32_t begin : {0U, 7U, 37U}) {
    const std::uint32_t tokens = std::min(11U, 40 - begin);
    const std::vector<float> part(queries.begin() + begin * width,
                                  queries.begin() + (begin + tokens) * width);
    const auto attended = attend(shape, pool, {{30 + begin, tokens, 0}}, part, options);
    CHECK(same_bits(&whole[begin * width], attended.data(), tokens * width));
  }
}

TEST_CASE("cuda attention: tiles are right in any order of threads") {
  const Shape shape{2, 1, 64, DataType::kBF16};
  const Pool pool(shape, {80});
  in_several_orders([&] {
    CHECK(worst_against_f64(shape, pool, {{70, 6, 0}}, {.has_tiles = true}) < 2 * rounding_of(shape.type));
  });
}

TEST_CASE("cuda attention: tiles of what tensor cores don't take are refused in words") {
  const Shape shape{4, 1, 32, DataType::kBF16};
  const Pool pool(shape, {20});
  CHECK_FALSE(cuda::can_tile_attention(pool.layout));
  CHECK_THROWS_WITH_AS(worst_against_f64(shape, pool, {{0, 20, 0}}, {.has_tiles = true}),
                       "attention on tensor cores wants bf16 or f16 and heads of 64 or 128 elements, "
                       "not bf16 and 32",
                       std::invalid_argument);
}

TEST_CASE("cuda attention: blocks of a graph that have nothing to do leave everything alone") {
  const Shape shape{4, 1, 64, DataType::kBF16};
  const Pool pool(shape, {100, 30});
  CHECK(worst_against_f64(shape, pool, {{99, 1, 0}, {0, 3, 1}}, {.has_tiles = true, .num_idle_blocks = 2}) <
        2 * rounding_of(shape.type));
}

TEST_CASE("cuda attention: an empty batch launches nothing") {
  const Shape shape{1, 1, 8, DataType::kF32};
  CHECK(attend(shape, Pool(shape, {1}), {}, {}).empty());
}
