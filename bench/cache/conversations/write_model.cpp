// SPDX-License-Identifier: Apache-2.0
// Writes the model that the conversation benchmarks serve: a random Llama of
// about 50 million parameters with the demo model's tokenizer and 2,048 tokens of
// context, or as many as are asked for. What it says makes no sense, but it says whole words only, which
// are the same tokens again when a client sends them back as text; a trained
// model's answers nearly always are, a random one's hardly ever.
//
// Usage: bench_conversation_model DIRECTORY [CONTEXT]
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "bench/models.hpp"
#include "gpu/model/random_model.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace {

using namespace troupe;

ModelConfig conversation_model(std::uint32_t vocabulary_size, std::uint32_t context_length) {
  ModelConfig config = llama_100m();
  config.hidden_size = 512;
  config.intermediate_size = 1792;
  config.num_layers = 14;
  config.num_heads = 8;
  config.num_kv_heads = 2;
  config.vocabulary_size = vocabulary_size;
  config.context_length = context_length;
  config.tied_embeddings = false;  // the head says which tokens are drawn
  config.bos_token.reset();
  config.eos_tokens.clear();
  return config;
}

// A blank and letters: between two of them every tokenizer that splits at
// blanks finds its border again.
bool is_word(std::string_view bytes) {
  if (bytes.size() < 2 || bytes.front() != ' ') return false;
  for (const char c : bytes.substr(1))
    if ((c < 'a' || c > 'z') && (c < 'A' || c > 'Z')) return false;
  return true;
}

std::vector<std::int32_t> words_of(const Tokenizer& tokenizer) {
  std::vector<std::int32_t> words;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(tokenizer.vocabulary_size()); ++id) {
    const auto bytes = tokenizer.token_bytes(id);
    if (is_word(bytes) && tokenizer.encode(bytes) == std::vector<std::int32_t>{id}) words.push_back(id);
  }
  return words;
}

}  // namespace

int main(int argc, char** argv) {
  const auto context = argc == 3 ? std::strtoul(argv[2], nullptr, 10) : 2048;
  if (argc < 2 || argc > 3 || context == 0 || context > 1u << 20) {
    std::fprintf(stderr, "usage: bench_conversation_model DIRECTORY [CONTEXT]\n");
    return 2;
  }
  try {
    const std::filesystem::path directory = argv[1];
    const auto tokenizer = load_tokenizer(bench::demo_model());
    const auto size = static_cast<std::uint32_t>(tokenizer->vocabulary_size());
    const auto words = words_of(*tokenizer);
    write_random_llama(directory, conversation_model(size, static_cast<std::uint32_t>(context)), 1, words);
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
      std::filesystem::copy_file(std::filesystem::path(bench::demo_model()) / file, directory / file,
                                 std::filesystem::copy_options::overwrite_existing);
    std::printf("%s: %zu words\n", directory.c_str(), words.size());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_conversation_model: %s\n", error.what());
    return 1;
  }
  return 0;
}
