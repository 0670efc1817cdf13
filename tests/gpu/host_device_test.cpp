// SPDX-License-Identifier: Apache-2.0
#include "gpu/host/host_device.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <random>
#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "generation.hpp"
#include "gpu/random_model.hpp"
#include "gpu/safetensors.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

ModelConfig tiny_llama() {
  ModelConfig config = llama_100m();
  config.hidden_size = 64;
  config.intermediate_size = 96;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  config.vocabulary_size = 100;
  config.context_length = 256;
  return config;
}

// A model that lives as long as the tests.
const std::shared_ptr<const HostModel>& tiny_model() {
  static const std::shared_ptr<const HostModel> model = [] {
    const TemporaryDirectory directory;  // weights are packed: the files may go
    write_random_llama(directory.path(), tiny_llama(), 1);
    return load_host_model(plan_host_model(directory.path(), {.num_threads = 2,
                                                              .num_slots = 8,
                                                              .max_batch_tokens = 64,
                                                              .max_pages = 64}));
  }();
  return model;
}

ProgramCache make_programs() {
  return {tiny_model()->network, tiny_model()->compute_type, tiny_model()->largest};
}

Batch good_batch() {
  Batch batch{.id = 5, .slices = {}, .token_ids = {3, 4, 5}, .page_table = {0, 1}};
  batch.slices.push_back({.sequence = 42,
                          .num_tokens = 3,
                          .num_pages = 2,
                          .sample = true,
                          .sampling = {.temperature = 0.0F},
                          .suppressed = {}});
  return batch;
}

// The tokens 3, 4, 5 … of which the first `known` are in the pages already; what
// comes after 40 of them.
Batch longer_batch(std::uint32_t known) {
  Batch batch{.id = 6, .slices = {}, .token_ids = {}, .page_table = {0, 1}};
  for (std::uint32_t i = known; i < 40; ++i) batch.token_ids.push_back(static_cast<int>(3 + i));
  batch.slices.push_back({.sequence = 43,
                          .num_tokens = 40 - known,
                          .context_length = known,
                          .num_pages = 2,
                          .sample = true,
                          .sampling = {.temperature = 0.0F},
                          .suppressed = {}});
  return batch;
}

std::shared_ptr<HostPages> make_host_pages(std::uint32_t num_pages) {
  return std::make_shared<HostPages>(num_pages, tiny_model()->memory.request.page_bytes);
}

// The logits behind a prompt of 100 tokens.
std::vector<float> last_logits(const std::filesystem::path& path, HostModelSettings settings) {
  settings.num_threads = 2;
  const auto model = load_host_model(plan_host_model(path, settings));
  CapturedLogits captured;
  {
    HostDevice device(model, {.on_logits = capture_logits(captured)});
    ProgramCache programs(model->network, model->compute_type, model->largest);
    generate(device, programs, {{.prompt = std::vector<std::int32_t>(100, 7), .num_new = 1}});
  }
  REQUIRE(captured[0].size() == 1);
  return captured[0][0];
}

// |a - b| / |b|
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double squares = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    squares += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    size += double{b[i]} * b[i];
  }
  return std::sqrt(squares / size);
}

// The bf16 weights of a directory again, as bf16 or f32, behind a header that
// puts the data `misalignment` bytes off.
void rewrite_weights(const std::filesystem::path& model_dir, DataType type,
                     std::size_t misalignment) {
  const auto path = model_dir / "model.safetensors";
  nlohmann::json header;
  std::string bytes;
  {
    const SafetensorsFile file(path);
    for (const auto& entry : file.entries()) {
      const std::size_t begin = bytes.size();
      const auto* values = reinterpret_cast<const std::uint16_t*>(file.bytes_of(entry).data());
      for (std::size_t i = 0; i < entry.size_bytes / 2; ++i) {
        const std::uint32_t widened = std::uint32_t{values[i]} << 16;
        if (type == DataType::kF32) {
          bytes.append(reinterpret_cast<const char*>(&widened), sizeof(widened));
        } else {
          bytes.append(reinterpret_cast<const char*>(&values[i]), sizeof(values[i]));
        }
      }
      header[entry.name] = {{"dtype", type == DataType::kF32 ? "F32" : "BF16"},
                            {"shape", entry.shape},
                            {"data_offsets", {begin, bytes.size()}}};
    }
  }
  std::string text = header.dump();
  text.resize((text.size() + 63) / 64 * 64 + misalignment, ' ');
  std::ofstream file(path, std::ios::binary);
  for (int i = 0; i < 8; ++i) file.put(static_cast<char>(text.size() >> (8 * i) & 0xFF));
  file << text << bytes;
  REQUIRE(file.flush());
}

BatchResult run(HostDevice& device, ProgramCache& programs, const Batch& batch) {
  const auto program = programs.find("decoder_step", 64, 8);
  return wait_for(device, device.submit(program, std::make_shared<Batch>(batch)));
}

}  // namespace

TEST_CASE("host device: it describes itself") {
  const HostDevice device(tiny_model());
  const auto& description = device.description();
  CHECK(description.name.find("host (2 threads") == 0);
  CHECK(description.page_size == 32);
  CHECK(description.num_pages == 64);
  CHECK(description.num_slots == 8);
  CHECK(description.context_length == 256);
  CHECK(description.vocabulary_size == 100);
}

TEST_CASE("host device: a batch that does not fit fails alone") {
  HostDevice device(tiny_model());
  ProgramCache programs = make_programs();
  const auto expected = run(device, programs, good_batch());
  REQUIRE(expected.error.empty());
  struct Case {
    void (*spoil)(Batch&);
    const char* reason;
  };
  const Case cases[] = {
      {[](Batch& b) { b.token_ids[1] = 100; }, "token id 100 is outside the vocabulary of 100"},
      {[](Batch& b) { b.token_ids[1] = -1; }, "outside the vocabulary"},
      {[](Batch& b) { b.token_ids.push_back(1); }, "advance 3 tokens, the batch has 4"},
      {[](Batch& b) { b.slices[0].num_tokens = 0; }, "without tokens"},
      {[](Batch& b) { b.slices[0].slot = 8; }, "slot 8 does not exist"},
      {[](Batch& b) { b.slices[0].context_length = 254; }, "257 tokens, at most 256"},
      {[](Batch& b) { b.slices[0].context_length = 4294967295U; }, "at most 256"},
      {[](Batch& b) { b.slices[0].num_pages = 0; }, "pages do not hold"},
      {[](Batch& b) { b.slices[0].num_pages = 3; }, "pages do not hold"},
      {[](Batch& b) { b.slices[0].first_page = 4294967295U; }, "pages do not hold"},
      {[](Batch& b) { b.slices[0].context_length = 62; }, "pages do not hold"},
      {[](Batch& b) { b.page_table[1] = 64; }, "page 64 does not exist"},
      {[](Batch& b) { b.slices[0].input_from_slot = true; }, "input comes from the slot"},
      {[](Batch& b) { b.slices[0].num_pending = 9; }, "9 tokens are pending, at most 8"},
      {[](Batch& b) { b.token_ids.resize(65); b.slices[0].num_tokens = 65; }, "does not fit its"},
  };
  for (const auto& [spoil, reason] : cases) {
    CAPTURE(reason);
    Batch bad = good_batch();
    spoil(bad);
    const auto result = run(device, programs, bad);
    CHECK(result.error.find(reason) != std::string::npos);
    CHECK(result.batch_id == 5);
    CHECK(run(device, programs, good_batch()).tokens == expected.tokens);
  }
}

TEST_CASE("host device: penalties are the same however many batches are in flight") {
  HostDevice device(tiny_model());
  ProgramCache programs = make_programs();
  std::vector<GenerationRequest> requests;
  for (std::uint32_t i = 0; i < 6; ++i) {
    requests.push_back({.prompt = {3, 4, 5, 3},
                        .num_new = 40,
                        .sampling = {.temperature = i % 2 == 0 ? 0.0F : 0.7F,
                                     .seed = i,
                                     .repetition_penalty = i % 3 == 0 ? 1.0F : 1.1F,
                                     .frequency_penalty = i < 4 ? 0.4F : 0.0F,
                                     .presence_penalty = i < 3 ? 0.0F : 0.2F},
                        .first_iteration = i});
  }
  const auto expected = generate(device, programs, requests);
  for (const std::uint32_t in_flight : {2U, 5U}) {
    for (const std::uint32_t seed : {1U, 2U}) {
      CHECK(generate(device, programs, requests,
                     {.seed = seed, .shuffle = true, .in_flight = in_flight}) == expected);
    }
  }
  auto without = requests;
  for (auto& request : without) {
    request.sampling.repetition_penalty = 1.0F;
    request.sampling.frequency_penalty = request.sampling.presence_penalty = 0.0F;
  }
  CHECK(generate(device, programs, without) != expected);
}

TEST_CASE("host device: log-probabilities are there for the slices that ask") {
  CapturedLogits captured;
  HostDevice device(tiny_model(), {.on_logits = capture_logits(captured)});
  ProgramCache programs = make_programs();
  CHECK(run(device, programs, good_batch()).logprobs.empty());
  captured.clear();
  Batch batch = good_batch();
  batch.slices.push_back(batch.slices[0]);
  batch.slices[1].sequence = 43;
  batch.slices[1].slot = 1;
  batch.slices[1].first_page = 2;
  batch.slices[1].sampling.top_logprobs = 2;
  batch.token_ids = {3, 4, 5, 9, 8, 7};
  batch.page_table = {0, 1, 2, 3};
  const auto result = run(device, programs, batch);
  REQUIRE(result.logprobs.size() == 2);
  CHECK(result.logprobs[0].top.empty());
  REQUIRE(result.logprobs[1].top.size() == 2);
  CHECK(result.logprobs[1].top[0].id == result.tokens[1]);  // it was the arg max
  CHECK(result.logprobs[1].top[0].logprob == result.logprobs[1].logprob);
  const auto& logits = captured[43].at(0);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(double{logit});
  const double expected = logits[static_cast<std::size_t>(result.tokens[1])] - std::log(sum);
  CHECK(result.logprobs[1].logprob == doctest::Approx(expected).epsilon(1e-6));
}

// Against the logits behind each beginning of the prompt.
TEST_CASE("host device: a prompt is scored token by token, and the slot knows what was drawn") {
  const std::vector<std::int32_t> prompt = {3, 14, 15, 92, 65, 35, 89};
  ProgramCache programs = make_programs();
  CapturedLogits captured;
  std::vector<std::vector<std::int32_t>> plain;
  {
    HostDevice device(tiny_model(), {.on_logits = capture_logits(captured)});
    std::vector<GenerationRequest> beginnings;
    for (std::size_t i = 1; i <= prompt.size(); ++i)
      beginnings.push_back({.prompt = {prompt.begin(), prompt.begin() + static_cast<int>(i)},
                            .num_new = 2});
    plain = generate(device, programs, beginnings);
  }
  HostDevice device(tiny_model());
  const auto batch = std::make_shared<Batch>(
      scoring_batch(prompt, device.description().page_size, 3));
  const auto program = programs.find("decoder_step", batch->num_tokens(), batch->num_output_rows());
  const auto result = wait_for(device, device.submit(program, batch));
  REQUIRE(result.error == "");
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    const auto& logits = captured[i].at(0);
    double sum = 0.0;
    for (const float logit : logits) sum += std::exp(double{logit});
    const std::int32_t next = i + 1 < prompt.size() ? prompt[i + 1] : plain.back().at(0);
    CHECK(result.tokens[i] == next);
    CHECK(result.logprobs[i].logprob ==
          doctest::Approx(logits[static_cast<std::size_t>(next)] - std::log(sum)).epsilon(1e-5));
    REQUIRE(result.logprobs[i].top.size() == 3);
    CHECK(result.logprobs[i].top[0].id == plain[i].at(0));
  }
  Batch next{.id = 2, .slices = {batch->slices.back()}, .token_ids = {0}, .page_table = {0}};
  next.slices[0].context_length = static_cast<std::uint32_t>(prompt.size());
  next.slices[0].input_from_slot = true;
  const auto drawn = wait_for(device, device.submit(programs.find("decoder_step", 1, 1),
                                                    std::make_shared<Batch>(next)));
  CHECK(drawn.tokens.at(0) == plain.back().at(1));
}

TEST_CASE("host device: a program of another network is refused, not run") {
  HostDevice device(tiny_model());
  ModelConfig other = tiny_llama();
  other.num_layers = 3;
  ProgramCache programs(make_network(other), tiny_model()->compute_type, {64, 8});
  CHECK(run(device, programs, good_batch()).error.find("is not on this device") !=
        std::string::npos);
}

TEST_CASE("host device: a failed batch voids its slot, and only that sequence") {
  HostDevice device(tiny_model());
  ProgramCache programs = make_programs();
  Batch first = good_batch();
  Batch other = good_batch();
  other.slices[0].slot = 1;
  other.page_table = {2, 3};
  REQUIRE(run(device, programs, first).error.empty());
  const auto other_token = run(device, programs, other).tokens[0];
  Batch failing = good_batch();
  failing.token_ids[0] = 1000;
  REQUIRE_FALSE(run(device, programs, failing).error.empty());

  Batch next{.id = 9, .slices = {}, .token_ids = {0, 0}, .page_table = {0, 1, 2, 3}};
  next.slices.push_back(first.slices[0]);
  next.slices.push_back(other.slices[0]);
  for (auto& slice : next.slices) {
    slice.num_tokens = 1;
    slice.context_length = 3;
    slice.input_from_slot = true;
  }
  next.slices[1].first_page = 2;
  const auto result = run(device, programs, next);
  CHECK(result.error.empty());
  CHECK(result.tokens[0] == -1);

  Batch known = other;
  known.token_ids = {other_token};
  known.slices[0].num_tokens = 1;
  known.slices[0].context_length = 3;
  CHECK(run(device, programs, known).tokens[0] == result.tokens[1]);
}

TEST_CASE("host device: many batches in flight complete in order, with one call each") {
  HostDevice device(tiny_model());
  ProgramCache programs = make_programs();
  std::atomic<int> calls{0};
  std::atomic<bool> moved_before_call{true};
  device.set_listener([&] {
    const int call = calls.fetch_add(1) + 1;
    if (device.completed() < static_cast<Ticket>(call)) moved_before_call = false;
  });
  const auto program = programs.find("decoder_step", 64, 8);
  constexpr Ticket kNumBatches = 300;
  for (Ticket i = 1; i <= kNumBatches; ++i) {
    Batch batch = good_batch();
    batch.id = i;
    if (i % 10 == 0) batch.token_ids[0] = -5;
    CHECK(device.submit(program, std::make_shared<Batch>(batch)) == i);
  }
  std::int32_t token = -2;
  for (Ticket i = 1; i <= kNumBatches; ++i) {
    const auto result = wait_for(device, i);
    CHECK(result.batch_id == i);
    CHECK(result.error.empty() == (i % 10 != 0));
    if (!result.error.empty()) continue;
    CHECK(result.network_nanoseconds > 0);
    if (token == -2) token = result.tokens[0];
    CHECK(result.tokens[0] == token);
  }
  device.set_listener({});
  CHECK(calls.load() == static_cast<int>(kNumBatches));
  CHECK(moved_before_call.load());
}

TEST_CASE("host device: a batch without slices does its moves and needs no program") {
  HostDevice device(tiny_model(), {.host_pages = make_host_pages(2)});
  ProgramCache programs = make_programs();
  const auto expected = run(device, programs, longer_batch(0));
  const auto moves_only = [&](std::uint64_t id, std::vector<PageMove> moves) {
    auto batch = std::make_shared<Batch>();
    batch->id = id;
    batch->moves = std::move(moves);
    return wait_for(device, device.submit(nullptr, batch));
  };
  const auto stored = moves_only(7, {{.to_host = true, .host_page = 1, .generation = 4}});
  CHECK(stored.batch_id == 7);
  CHECK(stored.error.empty());
  CHECK(stored.tokens.empty());
  // Its first page comes back elsewhere, what follows is computed again.
  CHECK(moves_only(8, {{.device_page = 5, .host_page = 1, .generation = 4}}).failed_loads.empty());
  Batch rest = longer_batch(kKvPageTokens);
  rest.page_table = {5, 6};
  CHECK(run(device, programs, rest).tokens == expected.tokens);
  CHECK(moves_only(9, {{.device_page = 5, .host_page = 0, .generation = 2}}).failed_loads ==
        std::vector<std::uint64_t>{2});
  CHECK(run(device, programs, rest).tokens == std::vector<std::int32_t>{kVoidContext});
}

// Two pages of context, of which the first comes from the host.
struct FollowUp {
  std::shared_ptr<HostPages> host_pages = make_host_pages(2);
  Batch batch = longer_batch(kKvPageTokens);
  std::vector<std::int32_t> expected;

  // Leaves the page on the host only.
  explicit FollowUp(ProgramCache& programs) {
    HostDevice device(tiny_model(), {.host_pages = host_pages});
    expected = run(device, programs, longer_batch(0)).tokens;
    Batch storing = good_batch();
    storing.page_table = {2, 3};
    storing.moves = {{.to_host = true, .host_page = 1, .generation = 4}};
    REQUIRE(run(device, programs, storing).error.empty());
    batch.page_table = {5, 6};
    batch.moves = {{.device_page = 5, .host_page = 1, .generation = 4}};
  }
};

TEST_CASE("host device: a batch waits for its KV layer by layer, and its tokens are the same") {
  ProgramCache programs = make_programs();
  FollowUp follow_up(programs);
  for (const LinkSettings link : {LinkSettings{}, LinkSettings{.bytes_per_second = 100'000'000}}) {
    HostDevice device(tiny_model(),
                      {.host_pages = follow_up.host_pages, .link = link, .poison_memory = true});
    const auto result = run(device, programs, follow_up.batch);
    CHECK(result.error.empty());
    CHECK(result.failed_loads.empty());
    CHECK(result.tokens == follow_up.expected);
  }
}

TEST_CASE("host device: damage that shows with the last layer voids the slice, not its neighbour") {
  ProgramCache programs = make_programs();
  FollowUp follow_up(programs);
  const auto contents = follow_up.host_pages->load(1, 4);
  const_cast<std::byte&>(contents.back()) ^= std::byte{1};
  HostDevice device(tiny_model(), {.host_pages = follow_up.host_pages, .poison_memory = true});
  const auto alone = run(device, programs, good_batch());
  Batch batch = follow_up.batch;
  SequenceSlice neighbour = good_batch().slices[0];
  neighbour.slot = 1;
  neighbour.first_page = 2;
  batch.slices.push_back(neighbour);
  batch.token_ids.insert(batch.token_ids.end(), {3, 4, 5});
  batch.page_table = {5, 6, 7, 8};
  const auto result = run(device, programs, batch);
  CHECK(result.failed_loads == std::vector<std::uint64_t>{4});
  CHECK(result.tokens == std::vector<std::int32_t>{kVoidContext, alone.tokens[0]});
}

TEST_CASE("host device: it can go with copies in flight, and what was not stored is not there") {
  ProgramCache programs = make_programs();
  FollowUp follow_up(programs);
  {
    HostDevice device(tiny_model(), {.host_pages = follow_up.host_pages,
                                     .link = {.bytes_per_second = 1}});
    Batch storing = follow_up.batch;
    storing.moves = {{.to_host = true, .host_page = 0, .generation = 9},
                     {.device_page = 5, .host_page = 1, .generation = 4}};
    const auto program = programs.find("decoder_step", 64, 8);
    for (int i = 0; i < 3; ++i) device.submit(program, std::make_shared<Batch>(storing));
  }
  CHECK(follow_up.host_pages->load(0, 9).empty());
  HostDevice device(tiny_model(), {.host_pages = follow_up.host_pages});
  CHECK(run(device, programs, follow_up.batch).tokens == follow_up.expected);
}

TEST_CASE("host device: moves to nowhere fail their batch alone") {
  ProgramCache programs = make_programs();
  HostDevice device(tiny_model(), {.host_pages = make_host_pages(2)});
  Batch bad = good_batch();
  bad.moves = {{.device_page = 1, .host_page = 2, .generation = 1}};
  CHECK(run(device, programs, bad).error.find("host page 2") != std::string::npos);
  CHECK(run(device, programs, good_batch()).error.empty());
}

TEST_CASE("host device: a batch with slices, but without a program, fails alone") {
  HostDevice device(tiny_model());
  const auto with_slices = std::make_shared<Batch>(good_batch());
  const auto result = wait_for(device, device.submit(nullptr, with_slices));
  CHECK(result.error.find("no program") != std::string::npos);
  auto tokens_only = std::make_shared<Batch>();
  tokens_only->token_ids = {1};
  CHECK(wait_for(device, device.submit(nullptr, tokens_only)).error.find("advance 0 tokens") !=
        std::string::npos);
}

TEST_CASE("host device: tickets are collected once, in order") {
  HostDevice device(tiny_model());
  ProgramCache programs = make_programs();
  CHECK_THROWS_AS(device.collect(1), std::logic_error);
  run(device, programs, good_batch());
  CHECK_THROWS_AS(device.collect(1), std::logic_error);
  CHECK_THROWS_AS(device.collect(3), std::logic_error);
}

TEST_CASE("host device: it can go at any moment, and the next one gives the same tokens") {
  ProgramCache programs = make_programs();
  const auto program = programs.find("decoder_step", 64, 8);
  std::int32_t token = -2;
  std::mt19937 random(4);
  for (int round = 0; round < 20; ++round) {
    HostDevice device(tiny_model(), {.poison_memory = true});
    device.set_listener([] {});
    const auto result = run(device, programs, good_batch());
    if (token == -2) token = result.tokens[0];
    CHECK(result.tokens[0] == token);
    for (unsigned n = random() % 20; n > 0; --n) {
      device.submit(program, std::make_shared<Batch>(good_batch()));
    }
    std::this_thread::sleep_for(std::chrono::microseconds{random() % 300});
  }
}

TEST_CASE("host device: the same seed and position draw the same token again") {
  HostDevice device(tiny_model());
  ProgramCache programs = make_programs();
  GenerationRequest request{.prompt = {1, 2, 3}, .num_new = 40,
                            .sampling = {.temperature = 1.2F, .seed = 99}};
  const auto whole = generate(device, programs, {request})[0];
  GenerationRequest resumed = request;
  resumed.prompt.insert(resumed.prompt.end(), whole.begin(), whole.begin() + 15);
  resumed.num_new = 25;
  const auto rest = generate(device, programs, {resumed})[0];
  CHECK(std::equal(rest.begin(), rest.end(), whole.begin() + 15, whole.end()));
}

TEST_CASE("host device: suppressed tokens are never drawn") {
  HostDevice device(tiny_model());
  ProgramCache programs = make_programs();
  Batch batch = good_batch();
  std::vector<std::int32_t> suppressed;
  for (int i = 0; i < 99; ++i) {
    const auto token = run(device, programs, batch).tokens[0];
    REQUIRE(token >= 0);
    CHECK(std::find(suppressed.begin(), suppressed.end(), token) == suppressed.end());
    suppressed.push_back(token);
    batch.slices[0].suppressed = suppressed;
  }
}

TEST_CASE("host device: oneDNN gives the same logits up to rounding") {
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), tiny_llama(), 1);
  for (const DataType compute_type : {DataType::kF32, DataType::kBF16}) {
    CAPTURE(name_of(compute_type));
    const auto ours = last_logits(directory.path(), {.compute_type = compute_type});
    const auto theirs =
        last_logits(directory.path(), {.compute_type = compute_type, .deterministic = false});
    CHECK(distance(theirs, ours) < (compute_type == DataType::kF32 ? 1e-5 : 2e-2));
  }
}

TEST_CASE("host weights: f32 copies of bf16 weights give the same bits in either arithmetic") {
  const TemporaryDirectory original;
  const TemporaryDirectory copy;
  write_random_llama(original.path(), tiny_llama(), 1);
  write_random_llama(copy.path(), tiny_llama(), 1);
  rewrite_weights(copy.path(), DataType::kF32, 0);
  for (const DataType compute_type : {DataType::kF32, DataType::kBF16}) {
    CAPTURE(name_of(compute_type));
    const HostModelSettings settings{.compute_type = compute_type};
    CHECK(last_logits(copy.path(), settings) == last_logits(original.path(), settings));
  }
}

TEST_CASE("host weights: tensors at odd addresses are read right") {
  const TemporaryDirectory original;
  const TemporaryDirectory copy;
  write_random_llama(original.path(), tiny_llama(), 1);
  for (const DataType type : {DataType::kBF16, DataType::kF32}) {
    write_random_llama(copy.path(), tiny_llama(), 1);
    rewrite_weights(copy.path(), type, 1);
    CHECK(last_logits(copy.path(), {}) ==
          last_logits(original.path(), {.compute_type = choose_compute_type({}, type)}));
  }
}

TEST_CASE("host model: settings that cannot be are refused") {
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), tiny_llama(), 1);
  CHECK_THROWS_AS(plan_host_model(directory.path(), {.num_slots = 0}), std::runtime_error);
  CHECK_THROWS_AS(plan_host_model(directory.path(), {.compute_type = DataType::kF16}),
                  std::runtime_error);
  CHECK_THROWS_WITH_AS(plan_host_model(directory.path(), {.memory_budget_bytes = 1000}),
                       doctest::Contains("does not fit"), std::runtime_error);
}

TEST_CASE("host model: a shorter context is kept, a longer one is cut") {
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), tiny_llama(), 1);
  CHECK(plan_host_model(directory.path(), {.context_length = 100}).settings.context_length ==
        100);
  CHECK(plan_host_model(directory.path(), {.context_length = 9999}).settings.context_length ==
        256);
}

TEST_CASE("host model: a tensor that is missing or misshapen is named before anything is loaded") {
  const TemporaryDirectory directory;
  ModelConfig config = tiny_llama();
  write_random_llama(directory.path(), config, 1);
  const auto weights = directory.path() / "model.safetensors";
  const TemporaryDirectory other;
  config.num_layers = 3;
  write_random_llama(other.path(), config, 1);
  std::filesystem::copy_file(weights, other.path() / "model.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  CHECK_THROWS_WITH_AS(plan_host_model(other.path(), {}),
                       doctest::Contains("model.layers.2.input_layernorm.weight"),
                       std::runtime_error);
  config = tiny_llama();
  config.vocabulary_size = 101;
  write_random_llama(other.path(), config, 1);
  std::filesystem::copy_file(weights, other.path() / "model.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  CHECK_THROWS_WITH_AS(plan_host_model(other.path(), {}), doctest::Contains("expected [101, 64]"),
                       std::runtime_error);
}

}  // namespace troupe
