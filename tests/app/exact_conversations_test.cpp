// SPDX-License-Identifier: Apache-2.0
// Conversations on the real model and device with so little memory that their
// KV is pushed to the host and to the disk, brought back, dropped and computed
// again all the time, while devices die and servers are started anew: every answer
// must be, to the byte, that of an engine that keeps nothing and has memory for
// all. TROUPE_TURNS=n plays so many.
#include "app/loading/model_loading.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "app/loading/disk_cache.hpp"
#include "gpu/model/model_config.hpp"
#include "gpu/model/random_model.hpp"
#include "store/state_directory.hpp"
#include "telemetry/log.hpp"
#include "tests/app/dying_device.hpp"
#include "tests/app/text_sink.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/sanitizers.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;

namespace {

constexpr std::size_t kNumKinds = 10;
// Of all kinds. The sanitizers make the network some ten times slower; with half as many turns some kinds
// have no preemption.
constexpr std::size_t kTurnsInEveryRun = test::kIsSanitized ? 1500 : 2500;
constexpr std::size_t kNumConversations = test::kIsSanitized ? 12 : 24;
constexpr std::uint64_t kSeed = 7;
constexpr std::size_t kMostAtOnce = 16;
constexpr std::size_t kMostHistory = 2600;  // characters
constexpr std::size_t kMostNoise = 1300;    // that are more tokens

struct Kind {
  std::string compute_type;
  EvictionPolicy policy = EvictionPolicy::kValue;
  std::uint64_t memory;  // of the device
  std::uint64_t host_memory;
  Ticket batches_a_device = 0;  // dies then; 0: never
  std::uint64_t link_bandwidth = 0;
  std::uint64_t disk_space = 0;
  std::size_t turns_a_life = 0;  // of the server; 0: it lives on
  std::uint64_t max_in_flight = 2;
  std::string quantize = "none";
  std::string kv_type = "auto";
  bool is_hybrid = false;  // a random LFM2 in place of the demo model

  // All that decides what is said.
  std::string computation() const {
    return compute_type + ", " + quantize + ", " + kv_type + (is_hybrid ? ", LFM2" : "");
  }
};

// Of each kind.
std::size_t num_turns() {
  const char* text = std::getenv("TROUPE_TURNS");
  return (text ? std::strtoul(text, nullptr, 10) : kTurnsInEveryRun) / kNumKinds;
}

const std::filesystem::path kDemo = TROUPE_SOURCE_DIR "/models/demo";

// A convolution's state and a layer of attention's keys and values take the same room in a page. Its text is
// noise, with the demo model's tokens.
const std::filesystem::path& hybrid_model() {
  static const test::TemporaryDirectory place;
  static const std::filesystem::path directory = [] {
    const nlohmann::json document = {
        {"architectures", {"Lfm2ForCausalLM"}},
        {"torch_dtype", "bfloat16"},
        {"vocab_size", 1024},
        {"hidden_size", 64},
        {"block_ff_dim", 128},
        {"block_auto_adjust_ff_dim", false},
        {"num_hidden_layers", 5},
        {"layer_types", {"conv", "full_attention", "conv", "conv", "full_attention"}},
        {"num_attention_heads", 4},
        {"num_key_value_heads", 2},
        {"max_position_embeddings", 2048},
        {"eos_token_id", 4}};
    place.write("config.json", document.dump());
    write_random_llama(place.path(), load_model_config(place.path()), kSeed);
    place.write("config.json", document.dump());
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
      std::filesystem::copy_file(kDemo / name, place.path() / name);
    return place.path();
  }();
  return directory;
}

Options options_of(const Kind& kind) {
  Options options;
  options.models.front().dir = kind.is_hybrid ? hybrid_model() : kDemo;
  options.compute_type = kind.compute_type;
  options.store_directory = "none";
  options.quantize = kind.quantize;
  options.kv_type = kind.kv_type;
  options.serving.cache_policy = kind.policy;
  options.memory_bytes = kind.memory;
  options.cache_host_memory = kind.host_memory;
  options.cache_disk_space = kind.disk_space;
  options.cache_turn_memory = 0;  // both must run the same tokens
  options.cache_link_bandwidth = kind.link_bandwidth;
  options.serving.max_batch_sequences = 16;
  options.serving.max_batch_tokens = 128;
  options.serving.prefill_chunk = 64;
  options.max_restarts = 1'000'000;
  options.serving.max_in_flight = kind.max_in_flight;
  options.serving.max_queue_time = std::chrono::hours(1);  // however slow the machine
  options.serving.keep_free = 0;                           // more are admitted than there will be pages for
  return options;
}

std::string something_to_say(std::mt19937_64& random) {
  constexpr std::array<const char*, 8> kNames = {"Maria", "Peter", "Anna", "Otto",
                                                 "Clara", "Felix", "Nora", "Hugo"};
  const std::string number = std::to_string(random() % 40 + 1);
  switch (random() % 5) {
    case 0: return "My name is " + std::string(kNames[random() % kNames.size()]) + ".";
    case 1: return "What is my name?";
    case 2: return "Count from " + number + " to " + std::to_string(random() % 40 + 45) + ".";
    case 3: return "My number is " + number + ".";
    default: return "Spell " + std::string(kNames[random() % kNames.size()]) + ".";
  }
}

struct Played {
  std::vector<std::string> conversations;  // all that was said in each
  std::string metrics;

  double metric(const std::string& name) const {
    std::istringstream lines(metrics);
    double sum = 0.0;
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with(name + "{")) sum += std::stod(line.substr(line.rfind(' ') + 1));
    return sum;
  }
};

// is_long: it grows until somebody has to make room.
GenerationRequest next_turn(std::vector<ChatMessage>& history, bool is_long, std::mt19937_64& random) {
  history.push_back({"user", something_to_say(random)});
  GenerationRequest request;
  request.id = "test";
  request.prompt = ChatPrompt{.messages = history};
  request.ignore_eos = is_long;
  request.max_tokens = static_cast<std::uint32_t>(is_long ? 160 : random() % 40 + 4);
  request.sampling = {.temperature = random() % 4 == 0 ? 1.2F : 0.0F, .seed = random()};
  request.has_seed = true;
  if (random() % 4 == 0) request.sampling.frequency_penalty = 0.4F;
  if (random() % 6 == 0) request.sampling.presence_penalty = 0.3F;
  if (random() % 6 == 0) request.sampling.repetition_penalty = 1.05F;
  if (random() % 4 == 0) request.sampling.top_logprobs = 2;
  return request;
}

std::size_t length(const std::vector<ChatMessage>& history) {
  std::size_t sum = 0;
  for (const auto& message : history) sum += message.content.size();
  return sum;
}

// What a server is made of, from its start to its end.
class Life {
 public:
  Life(const Kind& kind, const StateDirectory* directory, Metrics& metrics)
      : options_(options_of(kind)), model_(load_model(options_)) {
    const DeviceFactory factory = [this,
                                   number = kind.batches_a_device](WorkerId id) -> std::unique_ptr<Device> {
      if (number == 0) return model_.make_device(id);
      return std::make_unique<DyingDevice>(model_.make_device(id), number, true);
    };
    EngineOptions settings = engine_options(options_);
    settings.cache.disk = open_disk_cache(options_, model_, directory);
    engine_ = std::make_unique<Engine>(model_.served, factory, settings, metrics);
  }

  Engine& engine() { return *engine_; }
  // The last leases come back a moment after the last answer.
  void check_nothing_is_held() {
    CHECK(test::eventually([&] { return engine_->status().pages_running == 0; }));
  }

 private:
  Options options_;
  LoadedModel model_;
  std::unique_ptr<Engine> engine_;
};

// A few bits of what the disk holds.
void flip_bits(const std::filesystem::path& file, std::mt19937_64& random) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  const auto size = std::filesystem::file_size(file);
  for (int i = 0; i < 5 && size > 4096; ++i) {
    const auto offset = static_cast<std::streamoff>(4096 + random() % (size - 4096));
    stream.seekg(offset);
    const auto flipped = static_cast<char>(stream.get() ^ (1 << random() % 8));
    stream.seekp(offset);
    stream.put(flipped);
  }
}

// Always the same users, who say the same as long as they hear the same.
Played play(const Kind& kind) {
  const test::TemporaryDirectory place;
  const StateDirectory directory(place.path());
  Metrics metrics("demo");
  auto life = std::make_unique<Life>(kind, &directory, metrics);
  std::size_t end_of_life = kind.turns_a_life;

  std::mt19937_64 random(kSeed), damage(kSeed);
  std::vector<std::vector<ChatMessage>> histories(kNumConversations);
  Played played;
  played.conversations.resize(kNumConversations);
  for (std::size_t turn = 0; turn < num_turns();) {
    if (kind.turns_a_life > 0 && turn >= end_of_life) {
      end_of_life += kind.turns_a_life;
      if (damage() % 2 == 0) life->engine().flush(std::chrono::seconds(10));
      life.reset();
      if (damage() % 4 == 0) flip_bits(place.path() / "kv-pages.data", damage);
      if (damage() % 4 == 0) flip_bits(place.path() / "kv-pages.index", damage);
      life = std::make_unique<Life>(kind, &directory, metrics);
    }
    std::vector<std::pair<std::size_t, std::shared_ptr<TextSink>>> open;
    const std::size_t first = random() % kNumConversations;
    const bool is_crowd = random() % 16 == 0;
    const std::size_t number = is_crowd ? kMostAtOnce : random() % kMostAtOnce + 1;
    for (std::size_t i = 0; i < number; ++i, ++turn) {
      auto& history = histories[(first + i) % kNumConversations];
      if (length(history) > (kind.is_hybrid ? kMostNoise : kMostHistory)) history.clear();
      open.emplace_back((first + i) % kNumConversations, std::make_shared<TextSink>());
      life->engine().submit(next_turn(history, is_crowd, random), open.back().second);
    }
    for (const auto& [which, sink] : open) {
      histories[which].push_back({"assistant", sink->wait()});
      played.conversations[which] += histories[which].back().content + sink->logprobs() + "\n";
    }
  }
  life->check_nothing_is_held();
  played.metrics = metrics.expose();
  return played;
}

// An engine that keeps nothing and has memory for all.
const Played& reference_of(const Kind& kind) {
  static std::map<std::string, Played> references;
  const auto found = references.find(kind.computation());
  if (found != references.end()) return found->second;
  const Kind reference{.compute_type = kind.compute_type,
                       .policy = EvictionPolicy::kNone,
                       .memory = 256 << 20,
                       .host_memory = 0,
                       .quantize = kind.quantize,
                       .kv_type = kind.kv_type,
                       .is_hybrid = kind.is_hybrid};
  return references.emplace(kind.computation(), play(reference)).first->second;
}

void check_exact(const Kind& kind) {
  configure_logging(LogLevel::kOff, LogFormat::kText);
  const Played& reference = reference_of(kind);
  const Played played = play(kind);
  for (std::size_t i = 0; i < kNumConversations; ++i) {
    CAPTURE(i);
    CHECK(played.conversations[i] == reference.conversations[i]);
  }
  MESSAGE(kind.computation(), ", ", static_cast<int>(kind.policy), ": ",
          played.metric("troupe_kv_pages_stored_total"), " pages stored, ",
          played.metric("troupe_kv_pages_loaded_total"), " loaded, ",
          played.metric("troupe_kv_pages_written_total"), " written, ",
          played.metric("troupe_kv_pages_read_total"), " read, ",
          played.metric("troupe_kv_pages_evicted_total"), " evicted, ",
          played.metric("troupe_num_preemptions_total"), " preemptions, ",
          played.metric("troupe_recomputed_tokens_total"), " tokens recomputed, ",
          played.metric("troupe_worker_restarts_total"), " devices lost");
  CHECK(reference.metric("troupe_prefix_cache_hits_total") == 0);
  CHECK(played.metric("troupe_prefix_cache_hits_total") > 0);
  CHECK(played.metric("troupe_recomputed_tokens_total") > 0);
  CHECK(played.metric("troupe_num_preemptions_total") > 0);
  if (kind.host_memory == 0) return;
  CHECK(played.metric("troupe_kv_pages_stored_total") > 0);
  CHECK(played.metric("troupe_kv_pages_loaded_total") > 0);
  if (kind.disk_space == 0) return;
  CHECK(played.metric("troupe_kv_pages_written_total") > 0);
  CHECK(played.metric("troupe_kv_pages_read_total") > 0);
}

}  // namespace

TEST_CASE("exact conversations: bf16, little memory on device and host, five batches in flight") {
  check_exact({.compute_type = "bf16",
               .policy = EvictionPolicy::kValue,
               .memory = 16 << 20,
               .host_memory = 6 << 20,
               .max_in_flight = 5});
}

TEST_CASE("exact conversations: f32, little memory on device and host") {
  check_exact(
      {.compute_type = "f32", .policy = EvictionPolicy::kValue, .memory = 30 << 20, .host_memory = 12 << 20});
}

TEST_CASE("exact conversations: f32, no host tier, so that there are holes only") {
  check_exact(
      {.compute_type = "f32", .policy = EvictionPolicy::kValue, .memory = 30 << 20, .host_memory = 0});
}

TEST_CASE("exact conversations: bf16, by time, devices that die all the time on a slow link") {
  check_exact({.compute_type = "bf16",
               .policy = EvictionPolicy::kLru,
               .memory = 16 << 20,
               .host_memory = 6 << 20,
               .batches_a_device = 197,
               .link_bandwidth = 256 << 20});
}

TEST_CASE("exact conversations: bf16, servers that come and go over a disk that rots") {
  check_exact({.compute_type = "bf16",
               .policy = EvictionPolicy::kValue,
               .memory = 16 << 20,
               .host_memory = 6 << 20,
               .disk_space = 24 << 20,
               .turns_a_life = 60});
}

TEST_CASE("exact conversations: f32, devices and servers that come and go, a disk too small") {
  check_exact({.compute_type = "f32",
               .policy = EvictionPolicy::kLru,
               .memory = 30 << 20,
               .host_memory = 8 << 20,
               .batches_a_device = 297,
               .disk_space = 16 << 20,
               .turns_a_life = 90});
}

TEST_CASE("exact conversations: bf16, weights in 8 bits, devices and servers that come and go") {
  check_exact({.compute_type = "bf16",
               .policy = EvictionPolicy::kValue,
               .memory = 14 << 20,
               .host_memory = 6 << 20,
               .batches_a_device = 297,
               .disk_space = 24 << 20,
               .turns_a_life = 90,
               .quantize = "q8"});
}

TEST_CASE("exact conversations: bf16, KV in 8 bits, devices and servers that come and go") {
  check_exact({.compute_type = "bf16",
               .policy = EvictionPolicy::kValue,
               .memory = 13 << 20,
               .host_memory = 3 << 20,
               .batches_a_device = 297,
               .disk_space = 12 << 20,
               .turns_a_life = 90,
               .kv_type = "q8"});
}

TEST_CASE(
    "exact conversations: LFM2, its convolutions' state in pages, devices and servers that come and go") {
  check_exact({.compute_type = "bf16",
               .policy = EvictionPolicy::kValue,
               .memory = 4600 << 10,
               .host_memory = 1536 << 10,
               .batches_a_device = 297,
               .disk_space = 6 << 20,
               .turns_a_life = 90,
               .is_hybrid = true});
}

TEST_CASE("exact conversations: LFM2, its pages in 8 bits, devices and servers that come and go") {
  check_exact({.compute_type = "bf16",
               .policy = EvictionPolicy::kValue,
               .memory = 3830 << 10,
               .host_memory = 780 << 10,
               .batches_a_device = 297,
               .disk_space = 3 << 20,
               .turns_a_life = 90,
               .kv_type = "q8",
               .is_hybrid = true});
}
