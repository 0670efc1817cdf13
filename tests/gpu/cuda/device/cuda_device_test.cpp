// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/cuda_device.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>
#include <span>
#include <utility>

#include <doctest/doctest.h>

#include "cuda_model.hpp"
#include "generation.hpp"

namespace troupe {
namespace {

std::vector<DirectRequest> requests_of_many_lengths(std::uint32_t vocabulary) {
  std::mt19937 random(7);
  std::vector<DirectRequest> requests;
  for (const std::uint32_t length : {1U, 5U, 31U, 32U, 33U, 70U}) {
    DirectRequest request;
    request.num_new = 4;
    for (std::uint32_t i = 0; i < length; ++i)
      request.prompt.push_back(static_cast<std::int32_t>(random() % vocabulary));
    requests.push_back(std::move(request));
  }
  return requests;
}

// Root of the mean square.
double difference(const CapturedLogits& left, const CapturedLogits& right) {
  double sum = 0;
  std::size_t count = 0;
  REQUIRE(left.size() == right.size());
  for (const auto& [request, steps] : left) {
    // From the first step on which two tokens differ, nothing can be compared.
    const auto& others = right.at(request);
    for (std::size_t j = 0; j < steps.at(0).size(); ++j, ++count)
      sum += std::pow(double{steps[0][j]} - double{others.at(0).at(j)}, 2);
  }
  return std::sqrt(sum / static_cast<double>(count));
}

struct Answers {
  std::vector<std::vector<std::int32_t>> tokens;
  CapturedLogits logits;
};

Answers on_gpu(const SmallCudaModel& model) {
  Answers answers;
  cuda::CudaDevice device(model.get(), {.on_logits = capture_logits(answers.logits)});
  ProgramCache programs = model.programs();
  answers.tokens = generate(device, programs, requests_of_many_lengths(100));
  return answers;
}

Answers on_cpu(const SmallCudaModel& model, DataType type) {
  Answers answers;
  const auto cpu_model = model.on_cpu(type);
  CpuDevice device(cpu_model, {.on_logits = capture_logits(answers.logits)});
  ProgramCache programs(cpu_model->network, cpu_model->compute_type, cpu_model->largest);
  answers.tokens = generate(device, programs, requests_of_many_lengths(100));
  return answers;
}

CapturedStates states_on_cpu(const SmallCudaModel& model, DataType type) {
  CapturedStates states;
  const auto cpu_model = model.on_cpu(type);
  CpuDevice device(cpu_model);
  ProgramCache programs(cpu_model->network, cpu_model->compute_type, cpu_model->largest);
  (void)generate(device, programs, requests_of_many_lengths(100), {.states = &states});
  return states;
}

// A slice of one sequence from each start to the next.
Batch slices_between(std::span<const std::uint32_t> starts) {
  Batch batch{.id = 1, .slices = {}, .token_ids = {}, .page_table = {0, 1, 2, 3, 4, 5, 6, 7}};
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    batch.slices.push_back({.num_tokens = starts[i + 1] - starts[i],
                            .context_length = starts[i],
                            .num_pages = (starts[i + 1] + 31) / 32,
                            .sampling = {.temperature = 0.0F},
                            .suppressed = {}});
    for (std::uint32_t token = starts[i]; token < starts[i + 1]; ++token)
      batch.token_ids.push_back(static_cast<std::int32_t>(token * 7 % 100));
  }
  return batch;
}

// The first tokens of three sequences, of which those named ask for their states.
Batch batch_asking(std::uint32_t num_tokens, const std::vector<std::uint32_t>& asking) {
  Batch batch{.id = 1, .slices = {}, .token_ids = {}, .page_table = {0, 1, 2}};
  for (std::uint32_t i = 0; i < 3; ++i) {
    batch.slices.push_back({.sequence = i,
                            .slot = i,
                            .num_tokens = num_tokens,
                            .first_page = i,
                            .num_pages = 1,
                            .sample = true,
                            .sampling = {.temperature = 0.0F},
                            .suppressed = {}});
    for (std::uint32_t k = 0; k < num_tokens; ++k)
      batch.token_ids.push_back(static_cast<std::int32_t>(3 + i * num_tokens + k));
  }
  for (const std::uint32_t i : asking) batch.slices[i].wants_state = true;
  return batch;
}

std::vector<float> states_of(cuda::CudaDevice& device, ProgramCache& programs, const Batch& batch) {
  const auto result = wait_for(
      device, device.submit(programs.find(0, batch.num_tokens(), 3), std::make_shared<Batch>(batch)));
  REQUIRE(result.error == "");
  return result.states;
}

}  // namespace

TEST_CASE("cuda device: in f32 logits and tokens are the host's") {
  const SmallCudaModel model(small_settings(DataType::kF32));
  const Answers gpu = on_gpu(model);
  const Answers host = on_cpu(model, DataType::kF32);
  CHECK(gpu.tokens == host.tokens);
  CHECK(difference(gpu.logits, host.logits) < 5e-3);  // tf32 has 11 bits
}

TEST_CASE("cuda device: norms of query and key heads are the host's") {
  ModelConfig config = small_llama();
  config.architecture = "Qwen3ForCausalLM";
  config.head_norms = true;
  const SmallCudaModel model(small_settings(DataType::kF32), config);
  const Answers gpu = on_gpu(model);
  const Answers host = on_cpu(model, DataType::kF32);
  CHECK(gpu.tokens == host.tokens);
  CHECK(difference(gpu.logits, host.logits) < 5e-3);
  const SmallCudaModel bf16(small_settings(DataType::kBF16), config);
  const double of_host = difference(on_cpu(bf16, DataType::kBF16).logits, host.logits);
  CHECK(difference(on_gpu(bf16).logits, host.logits) < 2 * of_host);
}

// The host's arithmetic is one way of rounding, the GPU's another.
TEST_CASE("cuda device: in 16 bits logits are as near to those of f32 as the host's are") {
  const SmallCudaModel bf16(small_settings(DataType::kBF16));
  const Answers exact = on_cpu(bf16, DataType::kF32);
  const double of_host = difference(on_cpu(bf16, DataType::kBF16).logits, exact.logits);
  CHECK(difference(on_gpu(bf16).logits, exact.logits) < 1.5 * of_host);
}

TEST_CASE("cuda device: in f16 logits are nearer to those of f32 than in bf16") {
  Answers exact;
  double of_bf16 = 0;
  {
    const SmallCudaModel bf16(small_settings(DataType::kBF16));
    exact = on_cpu(bf16, DataType::kF32);
    of_bf16 = difference(on_gpu(bf16).logits, exact.logits);
  }
  const SmallCudaModel f16(small_settings(DataType::kF16));
  CHECK(difference(on_gpu(f16).logits, exact.logits) < of_bf16);
}

TEST_CASE("cuda device: graphs and batches in flight change no token") {
  const SmallCudaModel model(small_settings(DataType::kBF16));
  const auto requests = requests_of_many_lengths(100);
  std::vector<std::vector<std::int32_t>> plain;
  {
    CapturedLogits unused;
    cuda::CudaDevice device(model.get(), {.on_logits = capture_logits(unused)});  // no graphs
    ProgramCache programs = model.programs();
    plain = generate(device, programs, requests);
  }
  for (const std::uint32_t seed : {0U, 1U, 2U}) {
    set_stream_order(seed);
    cuda::CudaDevice device(model.get());
    ProgramCache programs = model.programs();
    CHECK(generate(device, programs, requests, {.in_flight = 1 + seed}) == plain);
    CHECK(device.num_graphs() > 0);
  }
  set_stream_order(0);
}

TEST_CASE(
    "cuda device: states are handed out with the tokens that ask, in graphs as well, and change no bit") {
  const SmallCudaModel model(small_settings(DataType::kBF16));
  const auto requests = requests_of_many_lengths(100);
  const auto run = [&](const GenerationSettings& settings, const LogitsHook& on_logits = {}) {
    cuda::CudaDevice device(model.get(), {.on_logits = on_logits});
    REQUIRE(device.description().hands_out_states);
    ProgramCache programs = model.programs();
    const auto tokens = generate(device, programs, requests, settings);
    CHECK((device.num_graphs() > 0) == (on_logits == nullptr));
    return tokens;
  };
  CapturedLogits without, with;
  CapturedStates states, of_graphs, in_flight;
  const auto tokens = run({}, capture_logits(without));
  CHECK(run({.states = &states}, capture_logits(with)) == tokens);
  CHECK(with == without);
  const CapturedStates exact = states_on_cpu(model, DataType::kF32);
  CHECK(difference(states, exact) < 2 * difference(states_on_cpu(model, DataType::kBF16), exact));
  CHECK(run({.states = &of_graphs}) == tokens);
  CHECK(of_graphs == states);
  for (const std::uint32_t seed : {1U, 2U}) {
    set_stream_order(seed);
    in_flight.clear();
    CHECK(run({.in_flight = 1 + seed, .states = &in_flight}) == tokens);
    CHECK(in_flight == states);
  }
  set_stream_order(0);
}

TEST_CASE("cuda device: only the states of slices that ask are handed out, in the order of their slices") {
  const SmallCudaModel model(small_settings(DataType::kBF16));
  cuda::CudaDevice device(model.get());
  ProgramCache programs = model.programs();
  const auto states = [&](const std::vector<std::uint32_t>& asking) {
    return states_of(device, programs, batch_asking(2, asking));
  };
  CHECK(states({}).empty());
  const std::size_t width = small_llama().hidden_size;
  const auto all = states({0, 1, 2});
  REQUIRE(all.size() == 3 * width);
  const auto of = [&](std::size_t i) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(i * width);
    return std::vector<float>(first, first + static_cast<std::ptrdiff_t>(width));
  };
  CHECK(of(0) != of(1));
  CHECK(states({0}) == of(0));
  CHECK(states({2}) == of(2));
  auto first_and_last = of(0);
  const auto last = of(2);
  first_and_last.insert(first_and_last.end(), last.begin(), last.end());
  CHECK(states({0, 2}) == first_and_last);
}

TEST_CASE("cuda device: states take one more graph, however many are asked for") {
  const SmallCudaModel model(small_settings(DataType::kBF16));
  cuda::CudaDevice device(model.get());
  ProgramCache programs = model.programs();
  const auto states = [&](const std::vector<std::uint32_t>& asking) {
    return states_of(device, programs, batch_asking(1, asking));
  };
  const auto all = states({0, 1, 2});  // without a graph
  const std::vector<float> first(all.begin(),
                                 all.begin() + static_cast<std::ptrdiff_t>(small_llama().hidden_size));
  for (int i = 0; i < 2; ++i) {
    CHECK(states({0}) == first);
    CHECK(states({1, 2}).size() == 2 * first.size());
    CHECK(states({0, 1, 2}) == all);
    CHECK(device.num_graphs() == 1);
  }
  for (int i = 0; i < 2; ++i) CHECK(states({}).empty());
  CHECK(device.num_graphs() == 2);
}

TEST_CASE("cuda device: penalties are the host's, with graphs and batches in flight as well") {
  const SmallCudaModel model(small_settings(DataType::kF32));
  std::vector<DirectRequest> requests;
  for (std::uint32_t i = 0; i < 4; ++i) {
    requests.push_back({.prompt = {3, 4, 5, 3},
                        .num_new = 12,
                        .sampling = {.temperature = 0.0F,
                                     .repetition_penalty = i % 2 == 0 ? 1.0F : 1.2F,
                                     .frequency_penalty = i < 3 ? 0.6F : 0.0F,
                                     .presence_penalty = i < 2 ? 0.0F : 0.3F},
                        .first_iteration = i});
  }
  std::vector<std::vector<std::int32_t>> expected;
  {
    const auto cpu_model = model.on_cpu(DataType::kF32);
    CpuDevice device(cpu_model);
    ProgramCache programs(cpu_model->network, cpu_model->compute_type, cpu_model->largest);
    expected = generate(device, programs, requests);
  }
  for (const std::uint32_t in_flight : {1U, 4U}) {
    cuda::CudaDevice device(model.get());
    ProgramCache programs = model.programs();
    CHECK(generate(device, programs, requests, {.in_flight = in_flight}) == expected);
  }
}

TEST_CASE("cuda device: log-probabilities are there for the slices that ask") {
  const SmallCudaModel model(small_settings(DataType::kF32));
  CapturedLogits captured;
  cuda::CudaDevice device(model.get(), {.on_logits = capture_logits(captured)});
  ProgramCache programs = model.programs();
  auto batch = std::make_shared<Batch>(
      Batch{.id = 5, .slices = {}, .token_ids = {3, 4, 5, 9, 8, 7}, .page_table = {0, 1}});
  for (std::uint32_t i = 0; i < 2; ++i) {
    batch->slices.push_back({.sequence = i,
                             .slot = i,
                             .num_tokens = 3,
                             .first_page = i,
                             .num_pages = 1,
                             .sample = true,
                             .sampling = {.temperature = 0.0F},
                             .suppressed = {}});
  }
  batch->slices[1].sampling.top_logprobs = 2;
  const auto result = wait_for(device, device.submit(programs.find(0, 6, 2), batch));
  REQUIRE(result.error.empty());
  REQUIRE(result.logprobs.size() == 2);
  REQUIRE(result.logprobs[1].top.size() == 2);
  CHECK(result.logprobs[1].top[0].id == result.tokens[1]);
  const auto& logits = captured[1].at(0);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(double{logit});
  const double expected = logits[static_cast<std::size_t>(result.tokens[1])] - std::log(sum);
  CHECK(result.logprobs[1].logprob == doctest::Approx(expected).epsilon(1e-5));
}

TEST_CASE("cuda device: the time of a batch runs from its own first kernel") {
  const SmallCudaModel model(small_settings(DataType::kBF16));
  cuda::CudaDevice device(model.get());
  ProgramCache programs = model.programs();
  Batch batch{.id = 1, .slices = {}, .token_ids = {3}, .page_table = {0}};
  batch.slices.push_back(
      {.num_tokens = 1, .num_pages = 1, .sample = true, .sampling = {.temperature = 0.0F}, .suppressed = {}});
  const auto shared = std::make_shared<const Batch>(batch);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i) (void)device.submit(programs.find(0, 1, 1), shared);
  std::chrono::nanoseconds sum{};
  for (Ticket ticket = 1; ticket <= 3; ++ticket) {
    const auto result = wait_for(device, ticket);
    CHECK(result.network_nanoseconds > 0);
    sum += std::chrono::nanoseconds(result.network_nanoseconds);
  }
  CHECK(sum < std::chrono::steady_clock::now() - begin);  // they came one after the other
  const Ticket moves = device.submit(nullptr, std::make_shared<const Batch>());
  CHECK(wait_for(device, moves).network_nanoseconds == 0);
}

TEST_CASE("cuda device: a lone slot's sequence with many holes is computed in one batch") {
  // What came before, the rest of a hole, holes of a page each, and the end.
  const std::vector<std::uint32_t> starts = {0, 96, 108, 128, 160, 192, 224, 250};
  BackendSettings settings = small_settings(DataType::kBF16);
  settings.num_slots = 1;
  settings.max_batch_tokens = 160;
  ModelConfig config = small_llama();
  config.num_kv_heads = config.num_heads;  // a page's tokens do not fill a tile
  const SmallCudaModel model(settings, config);
  const auto last_token = [&](std::size_t slices_of_batch) {
    const auto last_of = [&](std::size_t first) {
      return first == 0 ? 1 : std::min(first + slices_of_batch, starts.size() - 1);
    };
    cuda::CudaDevice device(model.get());
    ProgramCache programs = model.programs();
    std::int32_t token = -1;
    for (std::size_t first = 0; first + 1 < starts.size(); first = last_of(first)) {
      const auto batch =
          std::make_shared<Batch>(slices_between({&starts[first], &starts[last_of(first)] + 1}));
      batch->slices.back().sample = true;
      const auto result =
          wait_for(device, device.submit(programs.find(batch->cell, batch->num_tokens(), 1), batch));
      REQUIRE(result.error == "");
      token = result.tokens.back();
    }
    return token;
  };
  CHECK(last_token(starts.size()) == last_token(1));
}

TEST_CASE("cuda device: a weight that something is to be added to is refused by name") {
  struct OfOneWeight final : Network {
    ModelShapes shapes() const override { return {}; }
    std::vector<CellType> cells() const override { return {}; }
    std::vector<WeightSpec> weights() const override {
      return {{.name = "norm", .sources = {"norm"}, .rows = 1, .columns = 8, .added = 1.0F}};
    }
    std::vector<std::string> layer_prefixes() const override { return {}; }
    Program build_program(CellId, ProgramShape, DataType) const override { return {}; }
  };
  CHECK_THROWS_WITH(cuda::WeightLayout(OfOneWeight(), DataType::kBF16),
                    "a GPU adds nothing to weights, as \"norm\" asks");
}

TEST_CASE("cuda device: partial rows that don't fit at once are made in rounds, to the same bits") {
  BackendSettings settings = small_settings(DataType::kBF16);
  settings.num_slots = 1;
  settings.max_batch_tokens = 128;
  ModelConfig config = small_llama();
  config.num_layers = 1;
  config.context_length = 640;
  SmallCudaModel model(settings, config);
  const std::vector<std::uint32_t> history = {0, 128, 256, 384, 512};
  std::vector<std::uint32_t> starts;  // more short slices of a long context than a scheduler makes
  for (std::uint32_t start = 512; start <= 560; start += 4) starts.push_back(start);
  const auto last_logits = [&](const std::shared_ptr<const cuda::CudaModel>& loaded) {
    std::vector<float> logits;
    cuda::CudaDevice device(loaded, {.on_logits = [&](const Batch&, std::span<const float> shown) {
                              logits.assign(shown.begin(), shown.end());
                            }});
    ProgramCache programs = model.programs();
    const auto run = [&](std::span<const std::uint32_t> some) {
      const auto batch = std::make_shared<Batch>(slices_between(some));
      batch->page_table.resize(20);
      std::iota(batch->page_table.begin(), batch->page_table.end(), 0);
      batch->slices.back().sample = true;
      const auto result =
          wait_for(device, device.submit(programs.find(batch->cell, batch->num_tokens(), 1), batch));
      REQUIRE(result.error == "");
    };
    for (std::size_t i = 0; i + 1 < history.size(); ++i) run({&history[i], 2});
    run(starts);
    REQUIRE(logits.size() == config.vocabulary_size);
    return logits;
  };
  const auto rounds_of = [&](const cuda::CudaModel& loaded) {
    return cuda::plan_attention(slices_between(starts).slices, loaded.plan.attention).rounds.size();
  };
  const auto roomy = model.with_partials(1 << 16);
  CHECK(rounds_of(*roomy) == 1);
  CHECK(rounds_of(*model.get()) > 1);
  CHECK(last_logits(model.get()) == last_logits(roomy));
}

TEST_CASE(
    "cuda device: decode steps whose partial rows take rounds are no graphs, and give the same tokens") {
  BackendSettings settings = small_settings(DataType::kBF16);
  settings.num_slots = 5;
  settings.max_batch_tokens = 128;
  settings.max_pages = 128;
  ModelConfig config = small_llama();
  config.num_layers = 1;
  config.context_length = 640;
  SmallCudaModel model(settings, config);
  std::vector<DirectRequest> requests = requests_of_many_lengths(100);
  requests.resize(5);
  for (DirectRequest& request : requests) {
    request.prompt.resize(request.prompt.size() + 256, 7);
    request.num_new = 20;  // the first still runs when the last begins
  }
  struct Outcome {
    std::vector<std::vector<std::int32_t>> tokens;
    std::size_t num_graphs = 0;
  };
  const auto run = [&](const std::shared_ptr<const cuda::CudaModel>& loaded) {
    cuda::CudaDevice device(loaded);
    ProgramCache programs = model.programs();
    const auto tokens = generate(device, programs, requests, {.in_flight = 2});
    return Outcome{tokens, device.num_graphs()};
  };
  const Outcome at_once = run(model.get());
  // Of the rows of one item in two splits; the step has five sequences of two rows.
  const Outcome in_rounds = run(model.with_partials(8 * 2));
  CHECK(in_rounds.num_graphs < at_once.num_graphs);  // steps of fewer sequences are graphs
  CHECK(in_rounds.tokens == at_once.tokens);
}

TEST_CASE("cuda device: a batch of more partial rows than planned is refused, and the next is computed") {
  BackendSettings settings = small_settings(DataType::kBF16);
  settings.num_slots = 1;
  settings.max_batch_tokens = 640;
  ModelConfig config = small_llama();
  config.num_layers = 1;
  config.context_length = 640;
  SmallCudaModel model(settings, config);
  const auto loaded = model.with_partials(1);
  cuda::CudaDevice device(loaded);
  ProgramCache programs = model.programs();
  const auto run = [&](const std::vector<std::uint32_t>& starts) {
    const auto batch = std::make_shared<Batch>(slices_between(starts));
    batch->page_table.resize(20);
    std::iota(batch->page_table.begin(), batch->page_table.end(), 0);
    return wait_for(device, device.submit(programs.find(batch->cell, batch->num_tokens(), 0), batch)).error;
  };
  CHECK(run({0, 300, 304}) == "attention of the batch takes 16 partial rows, planned were 1");
  CHECK(run({0, 40}) == "");
}

TEST_CASE("cuda device: what describes a batch need not fit into pinned memory") {
  SmallCudaModel model(small_settings(DataType::kBF16));
  const auto requests = requests_of_many_lengths(100);
  const auto run = [&](const std::shared_ptr<const cuda::CudaModel>& loaded) {
    cuda::CudaDevice device(loaded);
    ProgramCache programs = model.programs();
    return generate(device, programs, requests, {.in_flight = 2});
  };
  const auto pinned = run(model.get());
  set_stream_order(1);
  CHECK(run(model.with_pinned_input(0)) == pinned);
  CHECK(run(model.with_pinned_input(2048)) == pinned);  // of some batches
  set_stream_order(0);
}

TEST_CASE("cuda device: items of a long context's prompts are counted once, and few of them are pinned") {
  BackendSettings settings = small_settings(DataType::kF32);  // no tiles
  settings.num_slots = 64;
  settings.max_batch_tokens = 512;
  ModelConfig config = small_llama();
  config.num_layers = 1;
  config.num_heads = 4;
  config.context_length = 131'072;
  const SmallCudaModel model(settings, config);
  const cuda::CudaModelPlan& plan = model.get()->plan;
  // (64 slots + 2 * 16 pages + 1 slices, and 2048 / 8 rows) in 512 splits
  const std::size_t most_items = std::size_t{97 + 256} * 512;
  cuda::BatchCapacity without = plan.capacity;
  without.items = {};
  CHECK(plan.input_bytes <
        cuda::BatchInput::size_bytes(without) + (most_items + 64) * sizeof(cuda::AttentionItem));
  CHECK(plan.pinned_input_bytes < plan.input_bytes / 2);
}

TEST_CASE("cuda device: partial rows are planned for 16 k tokens a sequence, however long it may become") {
  BackendSettings settings = small_settings(DataType::kBF16);
  settings.num_slots = 64;
  ModelConfig config = small_llama();
  config.num_layers = 1;
  config.num_heads = 4;
  config.context_length = 131'072;
  const SmallCudaModel model(settings, config);
  CHECK(model.get()->plan.attention.split_tokens == 256);
  CHECK(model.get()->plan.attention.max_partials == 64 * 4 * 64);
}

TEST_CASE("cuda device: a prompt is scored token by token as on the host, and the slot goes on") {
  const SmallCudaModel model(small_settings(DataType::kF32));
  const std::vector<std::int32_t> prompt = {3, 14, 15, 92, 65, 35, 89};
  const auto run = [&](Device& device, ProgramCache programs) {
    const auto batch = std::make_shared<Batch>(scoring_batch(prompt, device.description().page_size, 3));
    const auto first = wait_for(
        device,
        device.submit(programs.find(batch->cell, batch->num_tokens(), batch->num_output_rows()), batch));
    Batch next{.id = 2, .slices = {batch->slices.back()}, .token_ids = {0}, .page_table = {0}};
    next.slices[0].context_length = static_cast<std::uint32_t>(prompt.size());
    next.slices[0].input_from_slot = true;
    const auto second =
        wait_for(device, device.submit(programs.find(0, 1, 1), std::make_shared<Batch>(next)));
    REQUIRE(first.error == "");
    REQUIRE(second.error == "");
    return std::pair(first, second.tokens.at(0));
  };
  const auto cpu_model = model.on_cpu(DataType::kF32);
  CpuDevice host(cpu_model);
  const auto [expected, expected_token] =
      run(host, ProgramCache(cpu_model->network, cpu_model->compute_type, cpu_model->largest));
  for (const std::uint32_t order : {0U, 1U, 2U}) {
    set_stream_order(order);
    cuda::CudaDevice device(model.get());
    const auto [result, token] = run(device, model.programs());
    CHECK(result.tokens == expected.tokens);
    CHECK(token == expected_token);
    REQUIRE(result.logprobs.size() == prompt.size());
    for (std::size_t i = 0; i < prompt.size(); ++i) {
      CHECK(result.logprobs[i].logprob ==
            doctest::Approx(expected.logprobs[i].logprob).epsilon(1e-3));  // tf32
      CHECK(result.logprobs[i].top.at(2).id == expected.logprobs[i].top.at(2).id);
    }
  }
  set_stream_order(0);
}

}  // namespace troupe
