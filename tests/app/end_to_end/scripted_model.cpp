// SPDX-License-Identifier: Apache-2.0
#include "tests/app/end_to_end/scripted_model.hpp"

#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "text/utf8.hpp"

namespace troupe::test {
namespace {

using nlohmann::json;

constexpr std::size_t kHidden = 512;  // one dimension for each token that has a successor
constexpr std::size_t kHeadSize = 64;
constexpr std::size_t kFeedForward = 64;
constexpr const char* kEnd = "<|end|>";

// As byte-level BPE spells bytes: printable ones as they are, others from U+0100 on.
std::string spelled(std::string_view text) {
  static const auto kAlphabet = [] {
    std::vector<std::string> alphabet(256);
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool is_shown = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      append_utf8(alphabet[byte], is_shown ? static_cast<char32_t>(byte) : next);
      if (!is_shown) ++next;
    }
    return alphabet;
  }();
  std::string out;
  for (const char c : text) out += kAlphabet[static_cast<unsigned char>(c)];
  return out;
}

struct Vocabulary {
  std::vector<std::string> special;        // ids from 0 on
  std::vector<std::string> plain;          // spelled; ids behind them
  std::map<std::string, std::size_t> ids;  // of both
  std::vector<std::pair<std::size_t, std::size_t>> successors;

  std::size_t size() const { return special.size() + plain.size(); }
};

// The shortest beginning of text that is no token yet, so that it has one successor.
std::string unused_piece(const std::set<std::string>& used, std::string_view text) {
  for (std::size_t size = 2; size <= text.size(); ++size) {
    const auto piece = spelled(text.substr(0, size));
    if (!used.contains(piece) && text.size() - size != 1) return std::string(text.substr(0, size));
  }
  throw std::runtime_error("no piece is left for " + std::string(text));
}

Vocabulary vocabulary_of(const std::vector<CuedAnswer>& answers) {
  std::vector<std::vector<std::string>> chains;
  Vocabulary out;
  out.special = {kEnd};
  std::set<std::string> used;
  for (unsigned byte = 0; byte < 256; ++byte) {
    out.plain.push_back(spelled(std::string(1, static_cast<char>(byte))));
    used.insert(out.plain.back());
  }
  for (const auto& answer : answers) {
    auto& chain = chains.emplace_back(1, answer.cue);
    out.special.push_back(answer.cue);
    for (const auto& part : answer.parts) {
      if (part.is_special) {
        if (!used.insert(part.text).second) throw std::runtime_error(part.text + " is said twice");
        out.special.push_back(part.text);
        chain.push_back(part.text);
        continue;
      }
      for (std::string_view rest = part.text; !rest.empty();) {
        const auto piece = unused_piece(used, rest);
        rest.remove_prefix(piece.size());
        out.plain.push_back(spelled(piece));
        used.insert(out.plain.back());
        chain.push_back(out.plain.back());
      }
    }
    chain.emplace_back(kEnd);
  }
  for (const auto& token : out.special) out.ids.emplace(token, out.ids.size());
  for (const auto& token : out.plain) out.ids.emplace(token, out.ids.size());
  for (const auto& chain : chains)
    for (std::size_t i = 1; i < chain.size(); ++i)
      out.successors.emplace_back(out.ids.at(chain[i - 1]), out.ids.at(chain[i]));
  if (out.successors.size() > kHidden) throw std::runtime_error("the answers are too long");
  return out;
}

json tokenizer_of(const Vocabulary& vocabulary) {
  json added = json::array();
  for (const auto& token : vocabulary.special)
    added.push_back({{"id", vocabulary.ids.at(token)},
                     {"content", token},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  const json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocabulary.ids},
            {"merges", json::array()}}}};
}

class Safetensors {
 public:
  void add(const std::string& name, const std::vector<std::size_t>& shape, const std::vector<float>& values) {
    const auto begin = bytes_.size();
    bytes_.resize(begin + values.size() * sizeof(float));
    std::memcpy(bytes_.data() + begin, values.data(), values.size() * sizeof(float));
    header_[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, bytes_.size()}}};
  }
  void add_constant(const std::string& name, const std::vector<std::size_t>& shape, float value) {
    std::size_t count = 1;
    for (const auto size : shape) count *= size;
    add(name, shape, std::vector<float>(count, value));
  }
  std::string file() const {
    std::string header = header_.dump();
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const std::uint64_t size = header.size();
    std::string out(sizeof size, '\0');
    std::memcpy(out.data(), &size, sizeof size);
    return out + header + bytes_;
  }

 private:
  json header_ = json::object();
  std::string bytes_;
};

// Attention and feed-forward add nothing: what leads to the next token is the last alone.
std::string weights_of(const Vocabulary& vocabulary) {
  std::vector<float> embeddings(vocabulary.size() * kHidden), outputs(vocabulary.size() * kHidden);
  for (std::size_t i = 0; i < vocabulary.successors.size(); ++i) {
    const auto [token, next] = vocabulary.successors[i];
    embeddings[token * kHidden + i] = 1;
    outputs[next * kHidden + i] = 1;
  }
  Safetensors tensors;
  tensors.add("model.embed_tokens.weight", {vocabulary.size(), kHidden}, embeddings);
  tensors.add("lm_head.weight", {vocabulary.size(), kHidden}, outputs);
  tensors.add_constant("model.norm.weight", {kHidden}, 1);
  const std::string layer = "model.layers.0.";
  tensors.add_constant(layer + "input_layernorm.weight", {kHidden}, 1);
  tensors.add_constant(layer + "post_attention_layernorm.weight", {kHidden}, 1);
  for (const char* name : {"q", "k", "v"})
    tensors.add_constant(layer + "self_attn." + name + "_proj.weight", {kHeadSize, kHidden}, 0);
  tensors.add_constant(layer + "self_attn.o_proj.weight", {kHidden, kHeadSize}, 0);
  for (const char* name : {"gate", "up"})
    tensors.add_constant(layer + "mlp." + name + "_proj.weight", {kFeedForward, kHidden}, 0);
  tensors.add_constant(layer + "mlp.down_proj.weight", {kHidden, kFeedForward}, 0);
  return tensors.file();
}

}  // namespace

void write_scripted_model(const TemporaryDirectory& directory, const std::string& chat_template,
                          const std::vector<CuedAnswer>& answers) {
  const auto vocabulary = vocabulary_of(answers);
  const json config = {{"architectures", {"LlamaForCausalLM"}},
                       {"model_type", "llama"},
                       {"torch_dtype", "float32"},
                       {"vocab_size", vocabulary.size()},
                       {"hidden_size", kHidden},
                       {"intermediate_size", kFeedForward},
                       {"num_hidden_layers", 1},
                       {"num_attention_heads", 1},
                       {"num_key_value_heads", 1},
                       {"head_dim", kHeadSize},
                       {"rms_norm_eps", 1e-5},
                       {"rope_theta", 10000.0},
                       {"max_position_embeddings", 4096},
                       {"hidden_act", "silu"},
                       {"tie_word_embeddings", false},
                       {"eos_token_id", vocabulary.ids.at(kEnd)}};
  directory.write("config.json", config.dump());
  directory.write("tokenizer.json", tokenizer_of(vocabulary).dump());
  directory.write("tokenizer_config.json", json{{"eos_token", kEnd}}.dump());
  directory.write("chat_template.jinja", chat_template);
  directory.write("model.safetensors", weights_of(vocabulary));
}

}  // namespace troupe::test
