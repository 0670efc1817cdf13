// SPDX-License-Identifier: Apache-2.0
#include "app/convert/convert.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "app/convert/conversion.hpp"
#include "app/loading/model_source.hpp"
#include "app/options/usage_error.hpp"
#include "gpu/cpu/cpu_model.hpp"
#include "gpu/cpu/cpu_weights.hpp"
#include "gpu/model/model_config.hpp"
#include "gpu/model/random_model.hpp"
#include "gpu/networks/network.hpp"
#include "tests/gpu/generation.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/gpu/gguf_model.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;
using nlohmann::json;
using troupe::test::TemporaryDirectory;

namespace {

const std::filesystem::path kSource = TROUPE_SOURCE_DIR;
const std::filesystem::path kFamilies = kSource / "tests" / "fixtures" / "families";
const std::filesystem::path kTexts = kSource / "tests" / "fixtures" / "text";

// Pieces of sentencepiece, as many as small vocabularies have room for.
json small_tokenizer() {
  const std::vector<std::string> pieces = {"<unk>", "<s>", "</s>", "\u2581", "a", "b", "c", "ab", "\u2581ab"};
  json vocabulary = json::object(), added = json::array();
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    vocabulary[pieces[id]] = id;
    if (id < 3)
      added.push_back({{"id", id}, {"content", pieces[id]}, {"special", true}, {"normalized", false}});
  }
  const json to_metaspace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}};
  const json prepend = {{"type", "Prepend"}, {"prepend", "\u2581"}};
  const json to_space = {{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}};
  const json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  return {{"model",
           {{"type", "BPE"},
            {"vocab", vocabulary},
            {"merges", json::array({json::array({"a", "b"}), json::array({"\u2581", "ab"})})},
            {"byte_fallback", true},
            {"fuse_unk", true},
            {"unk_token", "<unk>"}}},
          {"added_tokens", added},
          {"normalizer", {{"type", "Sequence"}, {"normalizers", json::array({prepend, to_metaspace})}}},
          {"pre_tokenizer", nullptr},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders", json::array({to_space, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}, strip})}}}};
}

// A family's random model with that tokenizer.
std::filesystem::path family_in(const TemporaryDirectory& place, const std::string& family) {
  const auto directory = place.path() / family;
  std::filesystem::copy(kFamilies / family, directory);
  place.write(family + "/tokenizer.json", small_tokenizer().dump());
  place.write(family + "/tokenizer_config.json", json({{"bos_token", "<s>"}, {"eos_token", "</s>"}}).dump());
  return directory;
}

std::filesystem::path converted(const std::filesystem::path& model, const std::string& quantize) {
  const auto out = model.parent_path() / (model.filename().string() + "." + quantize + ".gguf");
  (void)convert_model({.options = {}, .model = model.string(), .out = out.string(), .quantize = quantize});
  return out;
}

std::string refusal_of(const ConvertCommand& command) {
  try {
    (void)convert_model(command);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::size_t num_files(const std::filesystem::path& directory) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(directory), std::filesystem::directory_iterator()));
}

CpuWeights weights_of(const WeightStore& store, const Network& network, Quantization quantization) {
  ThreadPool threads({.num_threads = 1});
  return {store, network, {.quantization = quantization}, threads};
}

std::string bytes_of(const CpuMatrix& matrix) {
  std::string bytes;
  for (const PackedMatrix& part : matrix.parts)
    bytes.append(reinterpret_cast<const char*>(part.panel(0)), part.size_bytes());
  return bytes;
}

// Every product of the file has the operands that the directory's has with --quantize at load; rows that
// are not of whole blocks those of the directory.
void check_same_products(const std::filesystem::path& directory, const std::filesystem::path& gguf,
                         Quantization quantization) {
  const auto network = load_network(directory), of_file = load_network(gguf);
  const WeightStore store(directory), file(gguf);
  const CpuWeights meant = weights_of(store, *network, quantization),
                   plain = weights_of(store, *network, Quantization::kNone),
                   said = weights_of(file, *of_file, Quantization::kKeep);
  for (const WeightSpec& spec : network->weights()) {
    CAPTURE(spec.name);
    if (spec.is_vector()) {
      CHECK(*said.find_vector(spec.name) == *meant.find_vector(spec.name));
    } else if (spec.is_matrix) {
      const CpuWeights& expected = spec.columns % kBlockInputs == 0 ? meant : plain;
      CHECK(bytes_of(*said.find_matrix(spec.name)) == bytes_of(*expected.find_matrix(spec.name)));
    }
  }
}

// A Llama whose embeddings 8 bits have exactly: the largest of each 32 is 127 steps.
std::filesystem::path exact_llama(const TemporaryDirectory& place, bool is_tied) {
  ModelConfig config;
  config.architecture = "LlamaForCausalLM";
  config.hidden_size = config.intermediate_size = 64;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  config.vocabulary_size = 96;
  config.context_length = 128;
  config.tied_embeddings = is_tied;
  std::uint32_t state = 1;
  const auto draw = [&state] {
    state = state * 1664525U + 1013904223U;
    return static_cast<float>(state >> 8) / static_cast<float>(1U << 24) - 0.5F;
  };
  std::vector<test::PlainTensor> tensors;
  for (const WeightSpec& spec : make_network(config)->weights()) {
    if (spec.name == "lm_head" && is_tied) continue;
    for (const std::string& source : spec.sources) {
      std::uint64_t rows = spec.rows / spec.sources.size();
      if (spec.sources.size() == 3) rows = source.find("q_proj") != std::string::npos ? 64 : 32;
      test::PlainTensor tensor{source, {rows, spec.columns}, {}};
      if (spec.is_vector()) tensor.shape = {spec.columns};
      for (std::uint64_t i = 0; i < (spec.is_vector() ? 1 : rows) * spec.columns; ++i) {
        const float of_table = i % 32 == 0 ? 127.0F : std::floor(250.0F * draw());
        tensor.values.push_back(spec.is_table      ? of_table / 128.0F
                                : spec.is_vector() ? 1.0F + draw()
                                                   : draw());
      }
      tensors.push_back(std::move(tensor));
    }
  }
  const auto directory = place.path() / "exact";
  test::write_plain_model(directory, config, tensors);
  place.write("exact/tokenizer.json", small_tokenizer().dump());
  return directory;
}

struct Answer {
  std::vector<std::vector<std::int32_t>> tokens;
  CapturedLogits logits;
};

Answer answer_of(const std::filesystem::path& model, Quantization quantization) {
  const auto loaded = load_cpu_model(plan_cpu_model(model, {.compute_type = DataType::kF32,
                                                            .quantization = quantization,
                                                            .num_threads = 1,
                                                            .num_slots = 4,
                                                            .max_batch_tokens = 64,
                                                            .max_pages = 64}));
  ProgramCache programs(loaded->network, loaded->compute_type, loaded->largest);
  Answer answer;
  CpuDevice device(loaded, {.on_logits = capture_logits(answer.logits)});
  answer.tokens = generate(device, programs, {{.prompt = {3, 14, 15, 92, 65}, .num_new = 40}});
  return answer;
}

void check_same_tokens(const Tokenizer& a, const Tokenizer& b, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    CAPTURE(text);
    CHECK(a.encode(text) == b.encode(text));
    CHECK(a.encode_with_specials(text) == b.encode_with_specials(text));
    CHECK(b.decode(b.encode(text)) == a.decode(a.encode(text)));
  }
}

const std::vector<std::string> kSomeTexts = {"Hello, world! 12345 67", " two  spaces\n\n\tand tabs ",
                                             "caf\u00E9 cafe\u0301 \u4F60\u597D", "a<|im_end|>b <s> c", ""};

}  // namespace

TEST_CASE("convert: a file gives the logits and tokens of --quantize at load, bit by bit") {
  for (const bool is_tied : {false, true}) {
    const TemporaryDirectory place;
    const auto directory = exact_llama(place, is_tied);
    for (const auto& [name, quantization] :
         {std::pair{"q8", Quantization::kQ8}, std::pair{"q4", Quantization::kQ4}}) {
      const Answer of_file = answer_of(converted(directory, name), Quantization::kKeep);
      const Answer at_load = answer_of(directory, quantization);
      CHECK(of_file.tokens == at_load.tokens);
      CHECK(of_file.logits == at_load.logits);
      CHECK(of_file.logits != answer_of(directory, Quantization::kNone).logits);
    }
  }
}

TEST_CASE("convert: each family's products have the operands of --quantize at load") {
  for (const char* family : {"llama_fp8", "llama_awq", "llama_gptq", "mixtral", "phi3", "phi3_long",
                             "phi3_short", "qwen3", "smollm3", "lfm2", "gpt_oss", "gpt_oss_plain"}) {
    CAPTURE(family);
    const TemporaryDirectory place;
    const auto directory = family_in(place, family);
    check_same_products(directory, converted(directory, "q8"), Quantization::kQ8);
    check_same_products(directory, converted(directory, "q4"), Quantization::kQ4);
  }
}

TEST_CASE("convert: experts of Qwen3-MoE are stacked, and shares that do not sum to 1 are refused") {
  const TemporaryDirectory place;
  ModelConfig config = llama_100m();
  config.architecture = "Qwen3MoeForCausalLM";
  config.hidden_size = config.intermediate_size = config.vocabulary_size = 64;
  config.num_layers = config.num_kv_heads = 1;
  config.num_heads = 2;
  config.head_dim = 32;
  config.head_norms = true;
  config.experts = ExpertsConfig{.num_experts = 4, .num_chosen = 2, .intermediate_size = 32};
  const auto directory = place.path() / "mixture";
  test::write_twins(place.path() / "twin.gguf", directory, config, BlockFormat::kF16, 3);
  place.write("mixture/tokenizer.json", small_tokenizer().dump());
  const auto four = converted(directory, "q4");
  check_same_products(directory, four, Quantization::kQ4);
  CHECK(GgufFile(four).find_tensor("blk.0.ffn_gate_exps.weight")->entry.dimensions ==
        std::vector<std::uint64_t>{64, 32, 4});
  json document = json::parse(test::file_text(directory / "config.json"));
  document["norm_topk_prob"] = false;
  place.write("mixture/config.json", document.dump());
  CHECK(refusal_of({.options = {}, .model = directory.string(), .out = (place.path() / "out").string()}) ==
        directory.string() + ": its norm_topk_prob can't be said in a GGUF file");
}

TEST_CASE("convert: rotations, windows and soft caps are said, and what can't be said is refused by name") {
  const TemporaryDirectory place;
  for (const char* family : {"llama_yarn", "gemma2", "gemma3"}) {
    CAPTURE(family);
    const auto directory = family_in(place, family);
    json config = json::parse(test::file_text(directory / "config.json"));
    if (config.contains("query_pre_attn_scalar")) config["query_pre_attn_scalar"] = config["head_dim"];
    // The format has the pattern of the published models alone: the sixth layer does not slide.
    if (std::string(family) == "gemma3")
      config["layer_types"] = std::vector<std::string>(4, "sliding_attention");
    place.write(std::string(family) + "/config.json", config.dump());
    check_same_products(directory, converted(directory, "q8"), Quantization::kQ8);
  }
  const auto directory = family_in(place, "qwen3");
  const json config = json::parse(test::file_text(directory / "config.json"));
  const auto refusal_with = [&](const char* field, const json& value) {
    json changed = config;
    changed["sliding_window"] = 64;
    changed["max_window_layers"] = 0;
    changed[field] = value;
    place.write("qwen3/config.json", changed.dump());
    return refusal_of(
        {.options = {}, .model = directory.string(), .out = (place.path() / "out.gguf").string()});
  };
  CHECK(refusal_with("use_sliding_window", true).find(": its sliding_window can't be said in a GGUF file") !=
        std::string::npos);
  CHECK(refusal_with("eos_token_id", {2, 3, 4, 5, 6}).find("its eos_token_id can't") != std::string::npos);
  CHECK(!std::filesystem::exists(place.path() / "out.gguf"));
}

TEST_CASE("convert: Llama 3's scaling becomes divisors, a magnitude that YaRN would not have is refused") {
  const TemporaryDirectory place;
  const auto directory = exact_llama(place, true);
  const auto write_scaling = [&](const json& scaling) {
    json config = json::parse(test::file_text(directory / "config.json"));
    config["rope_scaling"] = scaling;
    place.write("exact/config.json", config.dump());
  };
  json scaling = {{"rope_type", "llama3"},
                  {"factor", 8.0},
                  {"low_freq_factor", 1.0},
                  {"high_freq_factor", 4.0},
                  {"original_max_position_embeddings", 32}};
  write_scaling(scaling);
  const auto out = converted(directory, "q8");
  CHECK(load_model_config(out).rope_divisors.size() == 8);
  CHECK(answer_of(out, Quantization::kKeep).tokens == answer_of(directory, Quantization::kQ8).tokens);
  scaling["rope_type"] = "yarn";
  scaling["attention_factor"] = 1.0;
  write_scaling(scaling);
  CHECK(refusal_of({.options = {}, .model = directory.string(), .out = (place.path() / "out").string()}) ==
        directory.string() + ": its rope_scaling can't be said in a GGUF file");
}

TEST_CASE("convert: encoders, cells and families without a name in the format are refused by name") {
  const TemporaryDirectory place;
  const auto out = (place.path() / "out.gguf").string();
  const auto refusal = [&](const std::filesystem::path& model) {
    return refusal_of({.options = {}, .model = model.string(), .out = out});
  };
  CHECK(refusal(kFamilies / "gpt2")
            .starts_with("a network of architecture \"GPT2LMHeadModel\" can't be written"));
  CHECK(refusal(kSource / "tests" / "fixtures" / "cells" / "lstm")
            .starts_with("a network of cells of architecture \"LstmForCausalLM\" can't be written"));
  CHECK(refusal(place.path() / "nothing").find("nothing") != std::string::npos);
  CHECK(num_files(place.path()) == 0);
}

TEST_CASE("convert: a file that exists stays, a directory is refused, and so is the model itself") {
  const TemporaryDirectory place;
  const auto directory = family_in(place, "qwen3");
  const auto out = place.write("out.gguf", "mine");
  ConvertCommand command{.options = {}, .model = directory.string(), .out = out.string()};
  CHECK(refusal_of(command) == out.string() + ": exists; --force replaces it");
  CHECK(test::file_text(out) == "mine");
  command.replaces = true;
  (void)convert_model(command);
  CHECK(load_model_config(out).architecture == "Qwen3ForCausalLM");
  CHECK(refusal_of({.options = {}, .model = out.string(), .out = out.string(), .replaces = true}) ==
        out.string() + ": is the model itself");
  command.out = place.path().string();
  CHECK(refusal_of(command) == place.path().string() + ": expected the name of a file, got a directory");
  CHECK(num_files(place.path()) == 2);
}

TEST_CASE("convert: a GGUF file becomes one of another type, with its keys and names") {
  const TemporaryDirectory place;
  const auto directory = exact_llama(place, false);
  const auto eight = converted(directory, "q8");
  const auto four = converted(eight, "q4");
  const GgufFile before(eight), after(four);
  CHECK(*after.find_text("general.name") == "exact");
  CHECK(before.find_unsigned("general.file_type") == 7);
  CHECK(after.find_unsigned("general.file_type") == 2);
  CHECK(after.keys().size() == before.keys().size());
  REQUIRE(after.tensors().size() == before.tensors().size());
  CHECK(after.find_tensor("blk.1.attn_q.weight")->entry.type_name() == "Q4_0");
  for (const char* same : {"token_embd.weight", "output.weight", "blk.0.attn_norm.weight"}) {
    const auto of_before = before.find_tensor(same)->bytes(), of_after = after.find_tensor(same)->bytes();
    CHECK(std::equal(of_before.begin(), of_before.end(), of_after.begin(), of_after.end()));
  }
  const Answer of_file = answer_of(four, Quantization::kKeep), at_load = answer_of(eight, Quantization::kQ4);
  CHECK(of_file.tokens == at_load.tokens);
}

TEST_CASE("convert: text, template and sampling of the demo model come out of its file as they went in") {
  const TemporaryDirectory place;
  const auto demo = place.path() / "demo";
  std::filesystem::copy(kSource / "models" / "demo", demo);
  place.write("demo/generation_config.json",
              R"({"eos_token_id": [4, 0], "temperature": 0.5, "min_p": 0.125, "repetition_penalty": 1.5})");
  const auto out = place.path() / "demo.gguf";
  const std::string report = convert_model({.options = {}, .model = demo.string(), .out = out.string()});
  CHECK(report.find("Q8_0: 37 tensors") != std::string::npos);
  CHECK(report.find("its way to cut words has no name in the format") != std::string::npos);
  check_same_tokens(*load_model_tokenizer(demo), *load_model_tokenizer(out), kSomeTexts);
  const GenerationDefaults sampling = load_generation_defaults(out);
  CHECK(sampling.temperature == 0.5F);
  CHECK(sampling.min_p == 0.125F);
  CHECK(sampling.repetition_penalty == 1.5F);
  CHECK(sampling.unapplied.empty());
  const ModelConfig meant = load_model_config(demo), said = load_model_config(out);
  CHECK(std::set(said.eos_tokens.begin(), said.eos_tokens.end()) ==
        std::set(meant.eos_tokens.begin(), meant.eos_tokens.end()));
  ChatTemplateInput input;
  input.messages.emplace_back(chat_message("user", "Spell the word cat."));
  const auto written = std::get<std::vector<TemplatePiece>>(load_model_template(out)->render(input));
  const auto original = std::get<std::vector<TemplatePiece>>(load_model_template(demo)->render(input));
  CHECK((written == original));
}
