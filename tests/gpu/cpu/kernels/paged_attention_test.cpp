// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/attention/paged_attention.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <utility>

#include "tests/gpu/cpu/kernels/random_values.hpp"

using namespace troupe;

namespace {

struct Shape {
  std::size_t heads, kv_heads, head_dim;
  DataType type;
  std::size_t window = 0;
  float soft_cap = 0.0F;
  std::vector<float> sinks = {};  // by head
  KvType kv_type = KvType::kComputed;
  AttendedPart part = AttendedPart::kAll;
};

struct Free {
  void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{64}); }
};

// Sequences with random keys and values in shuffled pages of a poisoned pool.
class Pool {
 public:
  Pool(const Shape& shape, std::vector<std::size_t> lengths) : shape_(shape) {
    std::size_t num_pages = 0;
    for (const auto length : lengths) num_pages += (length + 31) / 32;
    layout = {.num_layers = 2,
              .num_pages = num_pages + 1,
              .num_kv_heads = shape.kv_heads,
              .head_dim = shape.head_dim,
              .type = shape.type,
              .kv_type = shape.kv_type};
    memory.reset(static_cast<std::byte*>(::operator new (kv_pool_bytes(layout), std::align_val_t{64})));
    std::fill_n(memory.get(), kv_pool_bytes(layout), std::byte{0xFF});  // NaN in both types
    page_table.resize(num_pages);
    std::iota(page_table.begin(), page_table.end(), 0);
    std::mt19937 generator(3);
    std::shuffle(page_table.begin(), page_table.end(), generator);
    std::size_t next = 0;
    for (const auto length : lengths) {
      first_page.push_back(next);
      next += (length + 31) / 32;
    }
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      keys.push_back(round(random_values(lengths[s] * width(), 10 + s)));
      values.push_back(round(random_values(lengths[s] * width(), 20 + s)));
    }
  }

  std::size_t width() const { return shape_.kv_heads * shape_.head_dim; }

  void append(std::size_t s, std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < end; ++t) {
      for (std::size_t head = 0; head < shape_.kv_heads; ++head) {
        std::byte* block =
            memory.get() + kv_block_offset(layout, 1, page_table[first_page[s] + t / 32], head);
        const std::size_t first = t * width() + head * shape_.head_dim;
        if (shape_.kv_type == KvType::kQ8) {
          put_in_8_bits(block, kv_key_scale(layout, t % 32), &keys[s][first],
                        [&](std::size_t d) { return kv_key_element(layout, t % 32, d); });
          put_in_8_bits(block, kv_value_scale(layout, t % 32), &values[s][first],
                        [&](std::size_t d) { return kv_value_element(layout, t % 32, d); });
          continue;
        }
        for (std::size_t d = 0; d < shape_.head_dim; ++d) {
          const std::size_t i = t * width() + head * shape_.head_dim + d;
          put(block, kv_key_element(layout, t % 32, d), keys[s][i]);
          put(block, kv_value_element(layout, t % 32, d), values[s][i]);
        }
      }
    }
  }

  KvLayout layout;
  std::unique_ptr<std::byte, Free> memory;
  std::vector<PageId> page_table;
  std::vector<std::size_t> first_page;
  std::vector<std::vector<float>> keys, values;  // [length, width]

 private:
  std::vector<float> round(std::vector<float> v) const {
    if (shape_.kv_type == KvType::kQ8) return v;  // as append() does
    return shape_.type == DataType::kBF16 ? to_f32(to_bf16(v)) : v;
  }
  // Leaves in `row` what the numbers and their scale stand for.
  template <typename Element>
  void put_in_8_bits(std::byte* block, std::size_t scale_at, float* row, Element element) const {
    float highest = 0.0F;
    for (std::size_t d = 0; d < shape_.head_dim; ++d) highest = std::max(highest, std::abs(row[d]));
    const std::uint16_t scale = bf16_from_f32(highest / 120.0F);  // never cuts, however it is rounded
    std::memcpy(block + scale_at, &scale, sizeof scale);
    for (std::size_t d = 0; d < shape_.head_dim; ++d) {
      const auto number = static_cast<std::int8_t>(std::lround(row[d] / f32_from_bf16(scale)));
      reinterpret_cast<std::int8_t*>(block)[element(d)] = number;
      row[d] = static_cast<float>(number) * f32_from_bf16(scale);
    }
  }
  void put(std::byte* block, std::size_t element, float value) const {
    if (shape_.type == DataType::kF32) {
      reinterpret_cast<float*>(block)[element] = value;
    } else {
      reinterpret_cast<std::uint16_t*>(block)[element] = bf16_from_f32(value);
    }
  }
  Shape shape_;
};

std::vector<float> attend(const Shape& shape, const Pool& pool, const std::vector<SequenceSlice>& slices,
                          const std::vector<float>& queries, Isa isa, std::size_t num_threads = 1) {
  const std::size_t width = shape.heads * shape.head_dim;
  std::vector<float> attended(queries.size(), -1.0F);
  const auto blocks = plan_attention(slices, shape.heads, shape.kv_heads);
  const auto split = split_blocks(blocks, shape.heads, pool.layout, num_threads);
  std::vector<float> partials(split.num_partial_floats, std::nanf(""));
  const PagedAttentionArguments arguments{.blocks = split.blocks,
                                          .merges = split.merges,
                                          .partials = partials.data(),
                                          .page_table = pool.page_table.data(),
                                          .kv_pool = pool.memory.get(),
                                          .layout = pool.layout,
                                          .layer = 1,
                                          .num_heads = shape.heads,
                                          .queries = queries.data(),
                                          .query_stride = width,
                                          .attended = attended.data(),
                                          .attended_type = DataType::kF32,
                                          .attended_stride = width,
                                          .part = shape.part,
                                          .window = shape.window,
                                          .scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim)),
                                          .sinks = shape.sinks.empty() ? nullptr : shape.sinks.data(),
                                          .soft_cap = shape.soft_cap,
                                          .isa = isa};
  for (std::size_t task = paged_attention_num_tasks(arguments); task-- > 0;) {
    paged_attention_run_task(arguments, task);
  }
  for (std::size_t task = merge_splits_num_tasks(arguments); task-- > 0;) {
    merge_splits_run_task(arguments, task);
  }
  return attended;
}

SequenceSlice slice_of(const Pool& pool, std::size_t s, std::size_t context, std::size_t tokens) {
  SequenceSlice slice;
  slice.num_tokens = static_cast<std::uint32_t>(tokens);
  slice.context_length = static_cast<std::uint32_t>(context);
  slice.first_page = static_cast<std::uint32_t>(pool.first_page[s]);
  return slice;
}

// One row in f64: `query` points at the head's query. Where the kernel rounds
// scaled queries to bf16, so does the reference.
std::vector<double> reference_row(const Shape& shape, const Pool& pool, std::size_t s, std::size_t position,
                                  std::size_t head, const float* query, Isa isa) {
  std::vector<float> scaled(shape.head_dim);
  for (std::size_t d = 0; d < shape.head_dim; ++d) {
    scaled[d] = query[d] * (1.0F / std::sqrt(static_cast<float>(shape.head_dim)));
    if (shape.type == DataType::kBF16 && isa >= Isa::kAvx512Bf16) {
      scaled[d] = f32_from_bf16(bf16_from_f32(scaled[d]));
    }
  }
  const std::size_t kv_head = head / (shape.heads / shape.kv_heads);
  std::vector<double> weights(position + 1), result(shape.head_dim);
  double highest = shape.sinks.empty() ? -1e300 : shape.sinks[head], total = 0.0;
  const std::size_t first = shape.window == 0 ? 0 : position + 1 - std::min(position + 1, shape.window);
  for (std::size_t t = first; t <= position; ++t) {
    const float* key = pool.keys[s].data() + t * pool.width() + kv_head * shape.head_dim;
    double score = 0.0;
    for (std::size_t d = 0; d < shape.head_dim; ++d) score += double{scaled[d]} * key[d];
    weights[t] = shape.soft_cap == 0.0F ? score : shape.soft_cap * std::tanh(score / shape.soft_cap);
    highest = std::max(highest, weights[t]);
  }
  if (!shape.sinks.empty()) total = std::exp(shape.sinks[head] - highest);
  for (std::size_t t = first; t <= position; ++t) total += weights[t] = std::exp(weights[t] - highest);
  for (std::size_t t = first; t <= position; ++t) {
    const float* value = pool.values[s].data() + t * pool.width() + kv_head * shape.head_dim;
    for (std::size_t d = 0; d < shape.head_dim; ++d) result[d] += weights[t] / total * value[d];
  }
  return result;
}

Shape in_8_bits(Shape shape) {
  shape.kv_type = KvType::kQ8;
  return shape;
}

const Shape kShapes[] = {{8, 4, 8, DataType::kF32},
                         {8, 4, 8, DataType::kBF16},
                         {6, 2, 64, DataType::kF32},
                         {6, 2, 64, DataType::kBF16},
                         {4, 4, 24, DataType::kF32},
                         {5, 1, 40, DataType::kBF16},
                         {8, 1, 128, DataType::kBF16},
                         {36, 1, 16, DataType::kF32},
                         {2, 1, 256, DataType::kF32},
                         {3, 3, 80, DataType::kBF16},
                         in_8_bits({6, 2, 64, DataType::kF32}),
                         in_8_bits({6, 2, 64, DataType::kBF16}),
                         in_8_bits({4, 4, 24, DataType::kBF16}),
                         in_8_bits({2, 1, 256, DataType::kF32})};

}  // namespace

TEST_CASE("attention: prefill and decode together equal f64 within 2e-5") {
  for (const Isa isa : supported_isas()) {
    for (const auto& shape : kShapes) {
      CAPTURE(name_of(isa));
      CAPTURE(shape.head_dim);
      CAPTURE(name_of(shape.type));
      // A whole prefill, a decode at a page's end, a chunk across pages, one token.
      const std::size_t contexts[] = {0, 95, 50, 0}, tokens[] = {70, 1, 33, 1};
      Pool pool(shape, {70, 96, 83, 1});
      std::vector<SequenceSlice> slices;
      for (std::size_t s = 0; s < 4; ++s) {
        pool.append(s, 0, contexts[s] + tokens[s]);
        slices.push_back(slice_of(pool, s, contexts[s], tokens[s]));
      }
      const std::size_t width = shape.heads * shape.head_dim;
      const auto queries = random_values(105 * width, 99);
      const auto attended = attend(shape, pool, slices, queries, isa);
      double worst = 0.0;
      std::size_t row = 0;
      for (std::size_t s = 0; s < 4; ++s) {
        for (std::size_t t = 0; t < tokens[s]; ++t, ++row) {
          for (std::size_t head = 0; head < shape.heads; ++head) {
            const std::size_t at = row * width + head * shape.head_dim;
            const auto expected = reference_row(shape, pool, s, contexts[s] + t, head, &queries[at], isa);
            for (std::size_t d = 0; d < shape.head_dim; ++d) {
              worst = std::max(worst, std::abs(attended[at + d] - expected[d]));
            }
          }
        }
      }
      CHECK(worst < 2e-5);
    }
  }
}

TEST_CASE(
    "attention: with windows, soft caps and sinks, rows equal f64 within 2e-5, with the same bits in "
    "chunks") {
  struct Variant {
    std::size_t window;
    float soft_cap;
    std::vector<float> sinks = {};
  };
  // Sinks below, among and above the scores.
  const Variant variants[] = {{1, 0.0F},
                              {5, 0.0F},
                              {32, 0.0F},
                              {33, 0.0F},
                              {70, 0.0F},
                              {200, 0.0F},
                              {0, 0.5F},
                              {33, 3.0F},
                              {0, 0.0F, {-40.0F, -1.0F, 0.0F, 0.5F, 3.0F, 40.0F}},
                              {33, 0.0F, {1.0F, 2.0F, -2.0F, 4.0F, 0.0F, 9.0F}}};
  for (const Isa isa : supported_isas()) {
    for (const auto& [type, kv_type] : {std::pair{DataType::kF32, KvType::kComputed},
                                        {DataType::kBF16, KvType::kComputed},
                                        {DataType::kBF16, KvType::kQ8}}) {
      for (const auto& [window, soft_cap, sinks] : variants) {
        CAPTURE(name_of(isa));
        CAPTURE(window);
        CAPTURE(soft_cap);
        const Shape shape{6, 2, 24, type, window, soft_cap, sinks, kv_type};
        const std::size_t width = shape.heads * shape.head_dim, length = 150;
        Pool pool(shape, {length});
        pool.append(0, 0, length);
        const auto queries = random_values(length * width, 99);
        const auto whole = attend(shape, pool, {slice_of(pool, 0, 0, length)}, queries, isa);
        double worst = 0.0;
        for (std::size_t t = 0; t < length; ++t) {
          for (std::size_t head = 0; head < shape.heads; ++head) {
            const std::size_t at = t * width + head * shape.head_dim;
            const auto expected = reference_row(shape, pool, 0, t, head, &queries[at], isa);
            for (std::size_t d = 0; d < shape.head_dim; ++d)
              worst = std::max(worst, std::abs(whole[at + d] - expected[d]));
          }
        }
        CHECK(worst < 2e-5);
        for (std::size_t begin = 0; begin < length; begin += 37) {
          const std::size_t end = std::min(length, begin + 37);
          const std::vector<float> part(queries.begin() + begin * width, queries.begin() + end * width);
          const auto attended = attend(shape, pool, {slice_of(pool, 0, begin, end - begin)}, part, isa);
          CHECK(std::equal(attended.begin(), attended.end(), whole.begin() + begin * width));
        }
      }
    }
  }
}

TEST_CASE("attention: a long context equals f64 within 2e-5") {
  const Shape shape{4, 2, 64, DataType::kBF16};
  Pool pool(shape, {3001});
  pool.append(0, 0, 3001);
  const auto queries = random_values(shape.heads * shape.head_dim, 5, 3.0F);
  for (const Isa isa : supported_isas()) {
    const auto attended = attend(shape, pool, {slice_of(pool, 0, 3000, 1)}, queries, isa);
    double worst = 0.0;
    for (std::size_t head = 0; head < shape.heads; ++head) {
      const auto expected = reference_row(shape, pool, 0, 3000, head, &queries[head * 64], isa);
      for (std::size_t d = 0; d < 64; ++d) {
        worst = std::max(worst, std::abs(attended[head * 64 + d] - expected[d]));
      }
    }
    CHECK(worst < 2e-5);
  }
}

TEST_CASE("attention: a row has the same bits however the prompt is chunked and batched") {
  for (const Isa isa : supported_isas()) {
    for (const auto& shape : kShapes) {
      CAPTURE(name_of(isa));
      CAPTURE(shape.head_dim);
      const std::size_t width = shape.heads * shape.head_dim;
      const std::size_t length = 100;
      Pool whole(shape, {length, 64});
      whole.append(0, 0, length);
      const auto queries = random_values((length + 1) * width, 99);
      const auto expected = attend(shape, whole, {slice_of(whole, 0, 0, length)}, queries, isa);
      for (const std::size_t chunk : {1, 7, 32, 45}) {
        Pool pool(shape, {length, 64});
        pool.append(1, 0, 50);
        for (std::size_t begin = 0; begin < length; begin += chunk) {
          const std::size_t tokens = std::min(chunk, length - begin);
          pool.append(0, begin, begin + tokens);  // what lies behind is still NaN
          // Another sequence's decode stands before it in the batch.
          std::vector<float> part(queries.end() - width, queries.end());
          part.insert(part.end(), queries.begin() + begin * width,
                      queries.begin() + (begin + tokens) * width);
          const auto attended =
              attend(shape, pool, {slice_of(pool, 1, 49, 1), slice_of(pool, 0, begin, tokens)}, part, isa);
          REQUIRE(same_bits(&expected[begin * width], &attended[width], tokens * width));
        }
      }
    }
  }
}

TEST_CASE("attention: a row behind several splits has the same bits however the prompt is chunked") {
  for (const Isa isa : supported_isas()) {
    for (const auto& shape : {Shape{5, 1, 40, DataType::kBF16}, Shape{4, 2, 16, DataType::kF32, 600}}) {
      CAPTURE(name_of(isa));
      CAPTURE(shape.head_dim);
      const std::size_t width = shape.heads * shape.head_dim, length = 1100;
      Pool pool(shape, {length});
      pool.append(0, 0, length);
      const auto queries = random_values(length * width, 99, 3.0F);
      const auto expected = attend(shape, pool, {slice_of(pool, 0, 0, length)}, queries, isa);
      for (const std::size_t chunk : {1, 45, 512, 700}) {
        for (std::size_t begin = 0; begin < length; begin += chunk) {
          const std::size_t tokens = std::min(chunk, length - begin);
          const std::vector<float> part(queries.begin() + begin * width,
                                        queries.begin() + (begin + tokens) * width);
          const auto attended = attend(shape, pool, {slice_of(pool, 0, begin, tokens)}, part, isa);
          REQUIRE(same_bits(&expected[begin * width], attended.data(), tokens * width));
        }
      }
    }
  }
}

TEST_CASE("attention: long contexts have the same bits split over any threads") {
  const std::vector<float> sinks{-3.0F, -1.0F, 0.0F, 0.5F, 1.0F, 3.0F};
  const Shape shapes[] = {{6, 2, 24, DataType::kF32},
                          {6, 2, 24, DataType::kBF16},
                          {36, 1, 16, DataType::kBF16},
                          in_8_bits({6, 1, 40, DataType::kBF16}),
                          {6, 2, 24, DataType::kBF16, 600, 3.0F},
                          {6, 2, 24, DataType::kF32, 1, 0.0F, sinks},
                          {6, 2, 24, DataType::kBF16, 0, 0.0F, sinks},
                          {6, 2, 24, DataType::kF32, 0, 0.0F, {}, KvType::kComputed, AttendedPart::kSource},
                          {6, 2, 24, DataType::kF32, 0, 0.0F, {}, KvType::kComputed, AttendedPart::kAnswer}};
  for (const Isa isa : supported_isas()) {
    for (const auto& shape : shapes) {
      CAPTURE(name_of(isa));
      CAPTURE(shape.head_dim);
      CAPTURE(shape.window);
      const std::size_t width = shape.heads * shape.head_dim;
      Pool pool(shape, {1600, 700, 512, 530});
      std::vector<SequenceSlice> slices;
      // A decode, a chunk across a split's end, a decode at one, a short one with a long source.
      const std::size_t contexts[] = {1599, 505, 511, 529}, tokens[] = {1, 13, 1, 1},
                        sources[] = {600, 490, 5, 520};
      for (std::size_t s = 0; s < 4; ++s) {
        pool.append(s, 0, contexts[s] + tokens[s]);
        slices.push_back(slice_of(pool, s, contexts[s], tokens[s]));
        slices.back().source_tokens = static_cast<std::uint32_t>(sources[s]);
      }
      const auto queries = random_values(16 * width, 99, 3.0F);
      const auto expected = attend(shape, pool, slices, queries, isa);
      for (const std::size_t num_threads : {2, 3, 16, 1000}) {
        CAPTURE(num_threads);
        const auto attended = attend(shape, pool, slices, queries, isa, num_threads);
        CHECK(same_bits(expected.data(), attended.data(), expected.size()));
      }
    }
  }
}

TEST_CASE("attention: bf16 output is the f32 output rounded") {
  const Shape shape{6, 2, 64, DataType::kBF16};
  Pool pool(shape, {40});
  pool.append(0, 0, 40);
  const std::size_t width = shape.heads * shape.head_dim;
  const auto queries = random_values(40 * width, 9);
  const std::vector<SequenceSlice> slices{slice_of(pool, 0, 0, 40)};
  const auto expected = to_bf16(attend(shape, pool, slices, queries, best_isa()));
  std::vector<std::uint16_t> attended(40 * width);
  const auto blocks = plan_attention(slices, shape.heads, shape.kv_heads);
  const PagedAttentionArguments arguments{.blocks = blocks,
                                          .page_table = pool.page_table.data(),
                                          .kv_pool = pool.memory.get(),
                                          .layout = pool.layout,
                                          .layer = 1,
                                          .num_heads = shape.heads,
                                          .queries = queries.data(),
                                          .query_stride = width,
                                          .attended = attended.data(),
                                          .attended_type = DataType::kBF16,
                                          .attended_stride = width,
                                          .scale = 0.125F};
  for (std::size_t task = 0; task < paged_attention_num_tasks(arguments); ++task) {
    paged_attention_run_task(arguments, task);
  }
  CHECK(attended == expected);
}

TEST_CASE("attention: the plan covers every token once, the most expensive first") {
  std::vector<SequenceSlice> slices(3);
  slices[0].num_tokens = 1;
  slices[0].context_length = 5000;
  slices[1].num_tokens = 77;
  slices[2].num_tokens = 1;
  const auto blocks = plan_attention(slices, 8, 2);
  std::vector<int> seen(79);
  for (const auto& block : blocks) {
    for (std::uint32_t i = 0; i < block.num_tokens; ++i) ++seen[block.first_token + i];
  }
  CHECK(seen == std::vector<int>(79, 1));
  CHECK(blocks.front().first_position == 5000);
  CHECK(plan_attention({}, 8, 2).empty());
}

TEST_CASE("attention: a block is split where one thread would be at work after the others") {
  const KvLayout layout{.num_kv_heads = 1, .head_dim = 64};
  std::vector<SequenceSlice> slices(3);
  for (auto& slice : slices) slice.num_tokens = 1;
  slices[1].context_length = 5000;
  const auto blocks = plan_attention(slices, 8, 1);
  const auto whole = split_blocks(blocks, 8, layout, 1);
  CHECK(whole.blocks.size() == 3);
  CHECK(whole.merges.empty());
  CHECK(whole.num_partial_floats == 0);

  const auto split = split_blocks(blocks, 8, layout, 2);
  REQUIRE(split.merges.size() == 1);
  CHECK(split.merges[0].first_position == 5000);
  REQUIRE(split.blocks.size() == 12);
  for (std::size_t i = 0; i < 10; ++i) {
    CHECK(split.blocks[i].first_position == 5000);
    CHECK(split.blocks[i].split == i);
  }
  CHECK(split.num_partial_floats == 10 * 8 * partial_floats(64));

  for (auto& slice : slices) slice.context_length = 5000;
  slices.resize(12, slices[0]);
  CHECK(split_blocks(plan_attention(slices, 8, 1), 8, layout, 2).merges.empty());
  CHECK(split_blocks(plan_attention(slices, 8, 1), 8, layout, 16).merges.size() == 12);
  CHECK(split_blocks({}, 8, layout, 2).blocks.empty());
}

TEST_CASE("attention: blocks whose partial results would take too much memory stay whole") {
  const KvLayout layout{.num_kv_heads = 1, .head_dim = 64};
  std::vector<SequenceSlice> slices(2);
  for (auto& slice : slices) slice.num_tokens = 1;
  slices[0].context_length = 1U << 20;
  slices[1].context_length = 1U << 15;
  const auto split = split_blocks(plan_attention(slices, 64, 1), 64, layout, 1000);
  REQUIRE(split.merges.size() == 1);
  CHECK(split.merges[0].first_position == 1U << 15);
  CHECK(split.num_partial_floats <= kMaxPartialFloats);
  CHECK(split.blocks.front().split == kAllSplits);
}
