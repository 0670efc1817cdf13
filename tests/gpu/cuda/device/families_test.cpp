// SPDX-License-Identifier: Apache-2.0
// Small random models of every family on the CUDA device: what transformers computes with the same weights,
// or a refusal that names what the device lacks. The files are those of tests/gpu/networks/families_test.cpp.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cuda_model.hpp"
#include "generation.hpp"
#include "gpu/model/safetensors.hpp"
#include "tests/support/gpu/safetensors_values.hpp"
#include "tests/support/sanitizers.hpp"
#include "tests/support/source_file.hpp"

namespace troupe {
namespace {

using test::values_of;

std::filesystem::path families() { return test::source_file("tests/fixtures/families"); }

struct Expectation {
  std::vector<DirectRequest> requests;
  std::vector<std::vector<std::int32_t>> greedy;
  std::vector<std::vector<float>> logits;  // [greedy, vocabulary]
};

Expectation read_expectation(const std::filesystem::path& directory) {
  const SafetensorsFile file(directory / "reference.safetensors");
  Expectation expectation;
  for (const std::string number : {"0", "1"}) {
    expectation.greedy.push_back(values_of<std::int32_t>(file, "greedy_" + number));
    expectation.logits.push_back(values_of<float>(file, "logits_" + number));
    expectation.requests.push_back(
        {.prompt = values_of<std::int32_t>(file, "tokens_" + number),
         .num_new = static_cast<std::uint32_t>(expectation.greedy.back().size()),
         .first_iteration = static_cast<std::uint32_t>(3 * expectation.requests.size())});
  }
  return expectation;
}

BackendSettings settings_of(const std::filesystem::path& model, DataType type) {
  BackendSettings settings = small_settings(type);
  settings.model_dir = model;
  settings.max_batch_tokens = 64;
  return settings;
}

// Empty: the device has all that the family needs.
std::string refusal_of(const std::filesystem::path& model) {
  try {
    (void)cuda::plan_cuda_model(settings_of(model, DataType::kF32));
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

struct Answers {
  std::vector<std::vector<std::int32_t>> tokens;
  CapturedLogits logits;
  std::size_t num_graphs = 0;
};

// With graphs unless logits are captured.
Answers answers_of(const std::filesystem::path& model, const std::vector<DirectRequest>& requests,
                   DataType type, const GenerationSettings& generation = {}, bool captures = false) {
  Answers answers;
  std::string news;
  const auto loaded =
      std::make_shared<const cuda::CudaModel>(cuda::plan_cuda_model(settings_of(model, type)), news);
  cuda::CudaDevice device(loaded, {.on_logits = captures ? capture_logits(answers.logits) : LogitsHook()});
  ProgramCache programs(loaded->plan.network, loaded->plan.compute_type, loaded->plan.largest);
  answers.tokens = generate(device, programs, requests, generation);
  answers.num_graphs = device.num_graphs();
  return answers;
}

void states_on_host(const std::filesystem::path& model, const std::vector<DirectRequest>& requests,
                    CapturedStates& states) {
  const BackendSettings settings = settings_of(model, DataType::kF32);
  const auto loaded = load_cpu_model(plan_cpu_model(model, {.compute_type = DataType::kF32,
                                                            .num_threads = 2,
                                                            .num_slots = settings.num_slots,
                                                            .max_batch_tokens = settings.max_batch_tokens,
                                                            .max_pages = settings.max_pages}));
  CpuDevice device(loaded);
  ProgramCache programs(loaded->network, loaded->compute_type, loaded->largest);
  (void)generate(device, programs, requests, {.states = &states});
}

// |a - b| / |b|
double difference(const std::vector<float>& row, std::span<const float> expected) {
  double squares = 0, reference = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    squares += std::pow(double{row[i]} - expected[i], 2);
    reference += std::pow(double{expected[i]}, 2);
  }
  return std::sqrt(squares / reference);
}

// The same of the first `count` rows.
double first_difference(const std::vector<std::vector<float>>& rows, const std::vector<float>& expected,
                        std::size_t count) {
  std::vector<float> joined;
  for (std::size_t i = 0; i < count; ++i) joined.insert(joined.end(), rows.at(i).begin(), rows.at(i).end());
  return difference(joined, std::span(expected).first(joined.size()));
}

// Products of f32 are TF32's: where tokens part, transformers' logits are a near tie.
void check_tokens(const std::vector<std::int32_t>& tokens, const std::vector<std::int32_t>& greedy,
                  const std::vector<float>& logits) {
  REQUIRE(tokens.size() == greedy.size());
  const auto parted = std::mismatch(tokens.begin(), tokens.end(), greedy.begin());
  if (parted.first == tokens.end()) return;
  const std::size_t vocabulary = logits.size() / greedy.size();
  const float* row = logits.data() + static_cast<std::size_t>(parted.first - tokens.begin()) * vocabulary;
  const auto [lowest, highest] = std::minmax_element(row, row + vocabulary);
  CHECK(row[*parted.second] - row[*parted.first] < 0.01F * (*highest - *lowest));
}

void check_family(const std::filesystem::path& model, const Expectation& expectation) {
  CAPTURE(model);
  const Answers alone = answers_of(model, expectation.requests, DataType::kF32, {}, true);
  for (std::size_t i = 0; i < expectation.logits.size(); ++i) {
    check_tokens(alone.tokens.at(i), expectation.greedy[i], expectation.logits[i]);
    CHECK(first_difference(alone.logits.at(i), expectation.logits[i], 1) < 1e-2);
  }
  // Prompts, alone and beside decode, and a few steps, which are forced to the reference's tokens.
  constexpr std::uint32_t kNumForced = 4;
  std::vector<DirectRequest> begun = expectation.requests;
  for (std::size_t i = 0; i < begun.size(); ++i) {
    begun[i].num_new = kNumForced;
    begun[i].forced = {expectation.greedy[i].begin(), expectation.greedy[i].begin() + kNumForced - 1};
  }
  const Answers rounded = answers_of(model, begun, DataType::kBF16, {}, true);
  // YaRN and longrope magnify queries and keys, and with them what is rounded.
  const bool is_magnified = model.filename() == "llama_yarn" || model.filename() == "phi3_long";
  for (std::size_t i = 0; i < begun.size(); ++i)
    CHECK(first_difference(rounded.logits.at(i), expectation.logits[i], kNumForced) <
          (is_magnified ? 0.03 : 0.02));
}

// Chunks, pages, order, graphs and batches in flight change no token, but for near ties.
void check_company(const std::filesystem::path& model, const Expectation& expectation) {
  CAPTURE(model);
  constexpr std::uint32_t kSeeds = test::kIsSanitized ? 2 : 3;  // two: with one batch in flight, and two
  for (std::uint32_t seed = 1; seed <= kSeeds; ++seed) {
    set_stream_order(seed);
    const Answers answers =
        answers_of(model, expectation.requests, DataType::kF32,
                   {.seed = seed, .max_chunk = 20, .shuffle = true, .in_flight = 1 + seed % 2});
    for (std::size_t i = 0; i < expectation.logits.size(); ++i)
      check_tokens(answers.tokens.at(i), expectation.greedy[i], expectation.logits[i]);
    CHECK(answers.num_graphs > 0);
  }
  set_stream_order(0);
}

template <class Change>
void change_config(const TemporaryDirectory& model, const Change& change) {
  std::ifstream written(model.path() / "config.json");
  auto document = nlohmann::json::parse(written);
  change(document);
  model.write("config.json", document.dump());
}

// With a context as long as that for which it has these factors, since a GPU's is never cut.
void write_short_phi3(const TemporaryDirectory& directory) {
  std::filesystem::copy(families() / "phi3_short", directory.path(),
                        std::filesystem::copy_options::recursive);
  change_config(directory, [](nlohmann::json& config) {
    config["max_position_embeddings"] = 128;
    config["rope_parameters"]["factor"] = 2.0;  // as the whole context stretched
  });
}

// Prompts that come together, and to others' decode steps. Products promise the same bits for up to 8 tokens,
// and for 33 to 64: within these each of kWatched is alone and here.
constexpr std::size_t kWatched[] = {2, 3};
std::vector<DirectRequest> company_within_windows() {
  std::mt19937 random(3);
  const auto request = [&](std::size_t length, std::uint32_t num_new, std::uint32_t first_iteration) {
    DirectRequest made{.prompt = {}, .num_new = num_new, .first_iteration = first_iteration};
    for (std::size_t i = 0; i < length; ++i) made.prompt.push_back(static_cast<std::int32_t>(random() % 80));
    return made;
  };
  return {request(6, 30, 0), request(15, 20, 3), request(43, 30, 3), request(2, 45, 6), request(3, 20, 20)};
}

void check_same_bits(const std::filesystem::path& model, const std::vector<DirectRequest>& company) {
  CAPTURE(model);
  const Answers together = answers_of(model, company, DataType::kBF16, {.in_flight = 2}, true);
  const Answers with_graphs = answers_of(model, company, DataType::kBF16, {.in_flight = 2});
  for (const std::size_t watched : kWatched) {
    CAPTURE(watched);
    const Answers alone = answers_of(model, {company.at(watched)}, DataType::kBF16, {}, true);
    CHECK(alone.tokens.at(0) == together.tokens.at(watched));
    CHECK(alone.tokens.at(0) == with_graphs.tokens.at(watched));
    CHECK(alone.logits.at(0) == together.logits.at(watched));
  }
}

}  // namespace

TEST_CASE("cuda families: each is that of transformers, or refused by the name of what the device lacks") {
  const GpuRuntime runtime;
  std::map<std::string, std::string> refused;
  for (const auto& folder : std::filesystem::directory_iterator(families())) {
    const std::string family = folder.path().filename();
    if (family == "phi3_short") continue;  // is below
    if (const std::string refusal = refusal_of(folder.path()); refusal.empty()) {
      check_family(folder.path(), read_expectation(folder.path()));
    } else {
      refused[family] = refusal;
    }
  }
  for (const auto& [family, refusal] : refused) {
    CAPTURE(family);
    CAPTURE(refusal);
    CHECK(refusal.find("the CUDA device ") != std::string::npos);
  }
  std::string names;
  for (const auto& [family, refusal] : refused) names += family + " ";
  CHECK(names == "gemma2 gemma3 gpt_neox_serial gpt_oss gpt_oss_plain mixtral qwen3_moe ");
}

TEST_CASE(
    "cuda families: tokens of GPTs, parts of heads, windows and layers without positions, in any company") {
  const GpuRuntime runtime;
  for (const char* family : {"gpt2", "gpt_neox", "opt", "phi", "phi3", "smollm3", "mistral", "qwen2"})
    check_company(families() / family, read_expectation(families() / family));
}

TEST_CASE("cuda families: a window that all layers have, with Phi-3's factors for short texts") {
  const GpuRuntime runtime;
  const TemporaryDirectory directory;
  write_short_phi3(directory);
  const Expectation expectation = read_expectation(directory.path());
  check_family(directory.path(), expectation);
  check_company(directory.path(), expectation);
}

TEST_CASE("cuda families: with windows a sequence has the same bits in bf16 alone and among others") {
  const GpuRuntime runtime;
  const std::vector<DirectRequest> company = company_within_windows();
  check_same_bits(families() / "mistral", company);
  if (!test::kIsSanitized) check_same_bits(families() / "qwen2", company);
  const TemporaryDirectory phi3;
  write_short_phi3(phi3);
  check_same_bits(phi3.path(), company);
  const TemporaryDirectory wide_heads;  // whose prompts are tiles for tensor cores
  write_random_llama(wide_heads.path(), small_llama(), 1);
  change_config(wide_heads, [](nlohmann::json& config) {
    config["architectures"] = {"MistralForCausalLM"};
    config["model_type"] = "mistral";
    config["sliding_window"] = 20;
  });
  check_same_bits(wide_heads.path(), company);
}

TEST_CASE("cuda families: the state of a prompt and of a token behind it is the host's") {
  const GpuRuntime runtime;
  for (const char* family : {"llama", "gpt2", "gpt_neox", "opt", "phi", "qwen3", "lfm2", "mistral"}) {
    CAPTURE(family);
    auto requests = read_expectation(families() / family).requests;
    for (auto& request : requests) request.num_new = 2;
    CapturedStates expected;
    states_on_host(families() / family, requests, expected);
    for (const DataType type : {DataType::kF32, DataType::kBF16}) {
      CapturedStates states;
      (void)answers_of(families() / family, requests, type, {.states = &states});
      const bool is_exact = type == DataType::kF32;  // else another first token may be drawn
      for (std::size_t i = 0; i < requests.size(); ++i) {
        REQUIRE(expected.at(i).at(0).size() > 0);
        CHECK(difference(states.at(i).at(0), expected.at(i)[0]) < (is_exact ? 1e-2 : 4e-2));
        if (is_exact) CHECK(difference(states.at(i).at(1), expected.at(i).at(1)) < 1e-2);
      }
    }
  }
}

TEST_CASE("cuda families: LFM2's tokens, also from a GGUF file, are transformers' in any company") {
  const GpuRuntime runtime;
  const auto directory = families() / "lfm2";
  const Expectation expectation = read_expectation(directory);
  check_company(directory, expectation);
  check_company(directory / "model.gguf", expectation);
}

}  // namespace troupe
