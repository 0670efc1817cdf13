// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/arena.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/cpu/cpu_model.hpp"
#include "gpu/cpu/program_runner.hpp"
#include "gpu/cpu/thread_pool.hpp"
#include "gpu/model/random_model.hpp"
#include "gpu/networks/network.hpp"
#include "gpu/program/early_gather.hpp"
#include "gpu/program/program_cache.hpp"
#include "tests/gpu/tiny_bert.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

constexpr std::uint32_t kLongestText = 512;

// Of small weights, whose longest text wants a chunk of more than two huge pages.
std::shared_ptr<const CpuModel> wide_encoder() {
  ModelConfig config = tiny_bert();
  config.intermediate_size = 2048;
  config.num_layers = 1;
  config.context_length = kLongestText;
  const TemporaryDirectory directory;
  write_random_bert(directory.path(), config, 1);
  return load_cpu_model(
      plan_cpu_model(directory.path(), {.num_threads = 1, .max_batch_tokens = kLongestText}));
}

// An encoder's runner, with the programs that a worker would give it.
class EncoderRun {
 public:
  void run(std::uint32_t num_tokens) {
    const Batch batch = batch_of({Text(num_tokens, 7)});
    const BatchResult result =
        runner_.run(programs_.find(0, num_tokens, 0), batch, nullptr, std::atomic<bool>(false));
    CHECK(result.vectors.size() == model_->cell().vector_size);
  }
  const Arena& arena() const { return runner_.arena(); }

 private:
  ProgramRunnerSettings settings() const {
    DeviceDescription limits;
    limits.max_batch_tokens = limits.context_length = kLongestText;
    limits.vocabulary_size = model_->network->shapes().vocabulary_size;
    limits.cells = model_->network->cells();
    return {.description = limits,
            .kv_layout = kv_layout_of(model_->network->shapes(), model_->compute_type, 0),
            .num_heads = model_->network->shapes().num_heads};
  }

  std::shared_ptr<const CpuModel> model_ = wide_encoder();
  ThreadPool threads_{ThreadPoolOptions{}};
  ProgramCache programs_{model_->network, model_->compute_type, model_->largest};
  ProgramRunner runner_{
      settings(), model_->weights, model_->rotary,
      gathered_early(build_programs(*model_->network, model_->largest, model_->compute_type)), threads_};
};

}  // namespace

TEST_CASE("arena: every smaller shape fits the chunks of the largest") {
  const auto network = make_network(llama_100m());
  const Program largest = network->build_program(0, {512, 64}, DataType::kBF16);
  Arena arena(largest);
  CHECK(arena.size_bytes() == arena_bytes(largest));
  for (std::uint32_t tokens = 1; tokens <= 512; tokens = tokens * 3 / 2 + 1) {
    for (const std::uint32_t rows : {0U, 1U, 7U, 64U}) {
      const Program program = network->build_program(0, {tokens, rows}, DataType::kBF16);
      const auto placements = arena.place(program);
      for (const auto& placement : placements) CHECK(placement.chunk < arena.num_chunks());
    }
  }
  const Program larger = network->build_program(0, {513, 64}, DataType::kBF16);
  CHECK_THROWS_AS(arena.place(larger), std::runtime_error);
}

TEST_CASE("arena: chunks that no batch uses, and what is behind a beginning that all use, are given back") {
  const auto network = make_network(llama_100m());
  const Program largest = network->build_program(0, {512, 64}, DataType::kBF16);
  Arena arena(largest);
  REQUIRE(arena.num_chunks() >= 2);
  CHECK(arena.committed_bytes() == 0);
  const auto all = arena.used_bytes(largest, arena.place(largest));
  arena.begin_batch(all);
  const std::uint64_t most = arena.committed_bytes();
  std::vector<std::uint64_t> little(arena.num_chunks());
  little[0] = 1;
  for (std::uint32_t i = 1; i < Arena::kIdleBatches; ++i) arena.begin_batch(little);
  CHECK(arena.committed_bytes() == most);
  for (std::uint32_t i = 1; i < Arena::kIdleBatches; ++i) arena.begin_batch(little);
  CHECK(arena.committed_bytes() == most);
  arena.begin_batch(little);
  CHECK(arena.committed_bytes() == kHugePageBytes);
  arena.begin_batch(all);
  CHECK(arena.committed_bytes() == most);
}

TEST_CASE("arena: an encoder's temporaries are as small after a long text as before it, a while later") {
  EncoderRun encoder;
  encoder.run(8);
  const std::uint64_t before = encoder.arena().committed_bytes();
  CHECK(before <= kHugePageBytes);
  encoder.run(kLongestText);
  const std::uint64_t most = encoder.arena().committed_bytes();
  CHECK(most > 2 * kHugePageBytes);
  CHECK(most <= encoder.arena().size_bytes());
  for (std::uint32_t i = 0; i < 2 * Arena::kIdleBatches; ++i) {
    encoder.run(1 + i % 8);
    CHECK(encoder.arena().committed_bytes() <= most);
  }
  CHECK(encoder.arena().committed_bytes() == before);
}

}  // namespace troupe
