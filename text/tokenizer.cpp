// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "text/bpe_tokenizer.hpp"
#include "text/model_file.hpp"
#include "text/tokenizer_file.hpp"
#include "text/utf8.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMaxFileBytes = 64u << 20;

void refuse_other_models(const nlohmann::json& tokenizer) {
  if (!tokenizer.is_object()) throw std::runtime_error("expected an object");
  const auto model = tokenizer.find("model");
  if (model == tokenizer.end() || !model->is_object()) {
    throw std::runtime_error("model: expected an object");
  }
  // Files of before 2022 name no type; only BPE has merges.
  const std::string type = model->value("type", model->contains("merges") ? "BPE" : "unknown");
  if (type != "BPE") {
    throw std::runtime_error("model.type: " + type + " is not supported, only BPE is");
  }
}

}  // namespace

// FNV-1a over the entries in the order of their ids, each with its end.
std::uint64_t vocabulary_fingerprint(const Tokenizer& tokenizer) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (std::size_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    for (const char byte : tokenizer.token_content(static_cast<TokenId>(id)))
      add(static_cast<unsigned char>(byte));
    add(0);
  }
  return hash;
}

std::vector<TokenId> Tokenizer::encode(std::string_view text) const { return encode_trusting(text, {}); }

std::vector<TokenId> Tokenizer::encode_with_specials(std::string_view text) const {
  const TextRange all{0, text.size()};
  return encode_trusting(text, std::span(&all, 1));
}

std::string Tokenizer::decode(std::span<const TokenId> tokens, bool skip_special) const {
  std::string bytes;
  for (const TokenId token : tokens) {
    if (!is_special(token)) {
      bytes += token_bytes(token);
    } else if (!skip_special) {
      bytes += token_content(token);
    }
  }
  std::size_t begin = 0;
  while (begin < std::min(bytes.size(), num_stripped_leading_spaces()) && bytes[begin] == ' ') {
    ++begin;
  }
  std::string text;
  Utf8Assembler assembler;
  assembler.push(std::string_view(bytes).substr(begin), text);
  assembler.finish(text);
  return text;
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& model_dir) {
  const std::filesystem::path path = model_dir / "tokenizer.json";
  const std::optional<std::string> text = read_model_file(path, kMaxFileBytes);
  if (!text) throw std::runtime_error(path.string() + ": no such file");
  const nlohmann::json tokenizer = parse_model_json(path, *text);

  const std::filesystem::path config_path = model_dir / "tokenizer_config.json";
  const std::optional<std::string> config_text = read_model_file(config_path, kMaxFileBytes);
  const nlohmann::json config = config_text ? parse_model_json(config_path, *config_text) : nlohmann::json();
  try {
    refuse_other_models(tokenizer);
    return std::make_unique<BpeTokenizer>(read_bpe_tokenizer(tokenizer, config));
  } catch (const std::exception& error) {
    throw std::runtime_error(path.string() + ": " + error.what());
  }
}

}  // namespace troupe
