// SPDX-License-Identifier: Apache-2.0
// A tokenizer that goes into a GGUF file comes out of it with the same tokens for every text.
#include "text/tokenizer/gguf_export.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.hpp"
#include "tests/text/text_data.hpp"

namespace troupe {
namespace {

using nlohmann::json;
using test::TemporaryDirectory;

constexpr std::size_t kMuch = std::size_t{1} << 24;

const std::vector<std::string> kTexts = {"Hello, world! It's 12345.",
                                         "  two spaces\n\n\t in front ",
                                         "caf\u00E9 cafe\u0301 \u212B \u4F60\u597D \U0001F600",
                                         "one<|im_start|>two <|im_end|> three<s>",
                                         "<think>\nit\u2581is</think>",
                                         "a",
                                         " ",
                                         ""};

void check_same(const Tokenizer& meant, const Tokenizer& said, std::size_t num_tokens) {
  for (const std::string& text : kTexts) {
    CAPTURE(text);
    CHECK(said.encode(text) == meant.encode(text));
    CHECK(said.encode_with_specials(text) == meant.encode_with_specials(text));
    CHECK(said.decode(said.encode_with_specials(text), false) ==
          meant.decode(meant.encode_with_specials(text), false));
  }
  for (std::size_t id = 0; id < num_tokens; ++id) {
    const auto token = static_cast<TokenId>(id);
    CHECK(said.token_bytes(token) == meant.token_bytes(token));
    CHECK(said.is_special(token) == meant.is_special(token));
  }
  CHECK(said.bos_token() == meant.bos_token());
  CHECK(said.eos_token() == meant.eos_token());
  CHECK(said.prefix_tokens() == meant.prefix_tokens());
  CHECK(said.suffix_tokens() == meant.suffix_tokens());
}

// Exports the tokenizer of a directory and compares what is read of the keys with it.
GgufExport check_export(const std::filesystem::path& directory) {
  const auto meant = load_tokenizer(directory);
  const std::size_t num_tokens = meant->vocabulary_size() + 3;
  GgufExport exported = export_tokenizer(directory, num_tokens, kMuch);
  CHECK(exported.vocabulary.tokens.size() == num_tokens);
  check_same(*meant, *make_gguf_tokenizer(exported.vocabulary), num_tokens);
  CHECK(exported.vocabulary.huggingface.empty() == exported.losses.empty());
  return exported;
}

// A directory with a changed tokenizer of the fixtures.
void write_tokenizer(const TemporaryDirectory& place, const json& tokenizer, const json& config) {
  place.write("tokenizer.json", tokenizer.dump());
  place.write("tokenizer_config.json", config.dump());
}

std::string refusal_of(const std::filesystem::path& directory, std::size_t most_bytes = kMuch) {
  try {
    (void)export_tokenizer(directory, load_tokenizer(directory)->vocabulary_size(), most_bytes);
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

json fixture(const char* name) { return file_json(fixture_dir() / name / "tokenizer.json"); }

}  // namespace

TEST_CASE("gguf export: words that have a name in the format are said by the keys alone") {
  const TemporaryDirectory place;
  json tokenizer = fixture("byte_level");
  tokenizer["normalizer"] = nullptr;
  tokenizer["model"]["ignore_merges"] = true;
  for (auto& token : tokenizer["added_tokens"])
    token["lstrip"] = token["rstrip"] = token["single_word"] = token["normalized"] = false;
  write_tokenizer(place, tokenizer, {{"bos_token", "<|endoftext|>"}, {"eos_token", "<|im_end|>"}});
  const GgufExport exported = check_export(place.path());
  CHECK(exported.vocabulary.model == "gpt2");
  CHECK(exported.vocabulary.pre == "llama-bpe");
  CHECK(exported.losses.empty());
}

TEST_CASE("gguf export: what the keys can't say goes along as the whole file") {
  const GgufExport exported = check_export(fixture_dir() / "byte_level");
  CHECK(exported.vocabulary.pre == "dbrx");
  CHECK(!exported.losses.empty());
  CHECK(says(refusal_of(fixture_dir() / "byte_level", 100), "too large to go along"));
}

TEST_CASE("gguf export: words without a name are named default, and the file goes along") {
  const auto demo = std::filesystem::path(TROUPE_SOURCE_DIR) / "models" / "demo";
  const GgufExport exported = check_export(demo);
  CHECK(exported.vocabulary.pre == "default");
  REQUIRE(!exported.losses.empty());
  CHECK(exported.losses.front() == "its way to cut words has no name in the format");
}

TEST_CASE("gguf export: merges of pieces become scores") {
  const TemporaryDirectory place;
  json tokenizer = fixture("sentencepiece");
  for (auto& token : tokenizer["added_tokens"]) token["rstrip"] = false;
  write_tokenizer(place, tokenizer, {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"add_bos_token", true}});
  const GgufExport exported = check_export(place.path());
  CHECK(exported.vocabulary.model == "llama");
  CHECK(exported.vocabulary.add_bos_token == true);
  CHECK(exported.vocabulary.add_space_prefix == true);
  CHECK(exported.unknown_token_id == 0);
  CHECK(exported.losses.empty());
  CHECK(!check_export(fixture_dir() / "sentencepiece").losses.empty());  // of a token that takes spaces
}

// Without a decoder there is a space between tokens.
TEST_CASE("gguf export: tokens that have another text by the keys alone take the file along") {
  const TemporaryDirectory place;
  json tokenizer = fixture("sentencepiece");
  for (auto& token : tokenizer["added_tokens"]) token["rstrip"] = false;
  tokenizer["decoder"] = nullptr;
  write_tokenizer(place, tokenizer, {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"add_bos_token", true}});
  const GgufExport exported = check_export(place.path());
  REQUIRE(!exported.losses.empty());
  CHECK(says(exported.losses.front(), "have another text"));
}

TEST_CASE("gguf export: tokenizers that decoders of the format do not have are refused") {
  CHECK(says(refusal_of(fixture_dir() / "unigram_bytes"),
             "tokenizer.json: can't be said in a GGUF file for a decoder"));
  const TemporaryDirectory place;
  json tokenizer = fixture("byte_level");
  tokenizer["post_processor"] = nullptr;
  write_tokenizer(place, tokenizer, nullptr);
  CHECK(refusal_of(place.path()).empty());
  tokenizer["post_processor"] = fixture("byte_level")["post_processor"];
  write_tokenizer(place, tokenizer, {{"bos_token", "<|im_start|>"}});
  CHECK(says(refusal_of(place.path()), "tokens in front of a text that are not bos_token"));
}

}  // namespace troupe
