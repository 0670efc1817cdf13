// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/random_model.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpu/networks/families/families.hpp"
#include "gpu/networks/network.hpp"

namespace troupe {
namespace {

// splitmix64 (Steele, Lea, Flood 2014): one word of state, any seed is good.
class RandomBits {
 public:
  explicit RandomBits(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

// The sum of four 16-bit uniform numbers, centred, of unit variance: close
// enough to normal, exact on every machine and fast.
float nearly_normal(RandomBits& random) {
  const std::uint64_t bits = random.next();
  const auto sum = static_cast<std::int32_t>((bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) +
                                             (bits >> 48));
  constexpr float kStandardDeviation = 65536.0F * 0.57735027F;  // sqrt(4 / 12) * 2^16
  return static_cast<float>(sum - 2 * 65535) / kStandardDeviation;
}

std::uint16_t rounded_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

// A tensor of the file: the rows of a source belong to exactly one weight.
struct FileTensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  float mean = 0.0F;
  float deviation = 0.0F;
  bool is_head = false;  // its rows give the logits
  std::uint64_t size() const {
    std::uint64_t product = 1;
    for (const auto dimension : shape) product *= dimension;
    return product;
  }
};

// Rows of the sources of a stacked weight.
std::vector<std::uint32_t> source_rows(const WeightSpec& spec, const ModelConfig& config) {
  const std::uint32_t total = spec.is_vector() ? spec.columns : spec.rows;
  if (spec.sources.size() == 3 && spec.kind == MatrixKind::kPlain) {  // query, key, value
    const std::uint32_t kv = config.num_kv_heads * config.head_dim;
    return {total - 2 * kv, kv, kv};
  }
  return std::vector<std::uint32_t>(spec.sources.size(),
                                    total / static_cast<std::uint32_t>(spec.sources.size()));
}

std::vector<FileTensor> file_tensors(const ModelConfig& config) {
  std::vector<FileTensor> tensors;
  for (const auto& spec : make_network(config)->weights()) {
    if (spec.name == "lm_head" && config.tied_embeddings) continue;
    const auto rows = source_rows(spec, config);
    for (std::size_t i = 0; i < spec.sources.size(); ++i) {
      FileTensor tensor{.name = spec.sources[i], .shape = {}};
      if (spec.is_vector()) {
        const bool is_norm = !spec.name.ends_with("_bias");  // of which 1 is the middle
        tensor.shape = {rows[i]};
        tensor.mean = is_norm ? 1.0F : 0.0F;
        tensor.deviation = is_norm ? 0.05F : 0.02F;
      } else {
        tensor.shape = {rows[i], spec.columns};
        tensor.is_head = spec.name == "lm_head";
        tensor.deviation = spec.is_table ? 1.0F : 1.0F / std::sqrt(static_cast<float>(spec.columns));
      }
      tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

void write_document(const std::filesystem::path& path, const nlohmann::ordered_json& document) {
  std::ofstream file(path);
  file << document.dump(2) << '\n';
  if (!file.flush()) throw std::runtime_error(path.string() + ": cannot be written");
}

void write_llama_config(const std::filesystem::path& path, const ModelConfig& config) {
  nlohmann::ordered_json document = {{"architectures", {config.architecture}},
                                     {"model_type", find_family(config.architecture)->model_type},
                                     {"hidden_size", config.hidden_size},
                                     {"intermediate_size", config.intermediate_size},
                                     {"num_hidden_layers", config.num_layers},
                                     {"num_attention_heads", config.num_heads},
                                     {"num_key_value_heads", config.num_kv_heads},
                                     {"head_dim", config.head_dim},
                                     {"vocab_size", config.vocabulary_size},
                                     {"max_position_embeddings", config.context_length},
                                     {"rms_norm_eps", config.norm_epsilon},
                                     {"rope_theta", config.rope_theta},
                                     {"hidden_act", "silu"},
                                     {"tie_word_embeddings", config.tied_embeddings},
                                     {"attention_bias", config.attention_bias},
                                     {"mlp_bias", config.mlp_bias},
                                     {"torch_dtype", "bfloat16"}};
  if (config.bos_token) document["bos_token_id"] = *config.bos_token;
  if (!config.eos_tokens.empty()) document["eos_token_id"] = config.eos_tokens;
  if (config.rope_scaling) {
    const RopeScaling& scaling = *config.rope_scaling;
    document["rope_scaling"] = {{"rope_type", scaling.type}, {"factor", scaling.factor}};
    if (scaling.type == "llama3") {
      document["rope_scaling"]["low_freq_factor"] = scaling.low_frequency_factor;
      document["rope_scaling"]["high_freq_factor"] = scaling.high_frequency_factor;
      document["rope_scaling"]["original_max_position_embeddings"] = scaling.original_context_length;
    }
  }
  write_document(path, document);
}

// Of BERT and RoBERTa, whose fields have the same names.
void write_bert_config(const std::filesystem::path& path, const ModelConfig& config) {
  const EncoderConfig& encoder = *config.encoder;
  const bool is_roberta = encoder.family == EncoderFamily::kRoberta;
  if (!is_roberta && encoder.family != EncoderFamily::kBert)
    throw std::runtime_error("random models of " + config.architecture + " are not written");
  nlohmann::ordered_json document = {
      {"architectures", {config.architecture}},
      {"model_type", is_roberta ? "roberta" : "bert"},
      {"hidden_size", config.hidden_size},
      {"intermediate_size", config.intermediate_size},
      {"num_hidden_layers", config.num_layers},
      {"num_attention_heads", config.num_heads},
      {"vocab_size", config.vocabulary_size},
      {"max_position_embeddings", encoder.first_position + config.context_length},
      {"type_vocab_size", encoder.num_types},
      {"layer_norm_eps", config.norm_epsilon},
      {"hidden_act", "gelu"},
      {"torch_dtype", "float32"}};
  if (is_roberta) document["pad_token_id"] = encoder.first_position - 1;
  if (encoder.classifier)
    for (std::size_t i = 0; i < encoder.classifier->labels.size(); ++i)
      document["id2label"][std::to_string(i)] = encoder.classifier->labels[i];
  write_document(path, document);
}

// As sentence-transformers has them.
void write_modules(const std::filesystem::path& model_dir, const ModelConfig& config) {
  const auto module = [](int index, const char* path, const char* kind) {
    return nlohmann::ordered_json{
        {"idx", index}, {"path", path}, {"type", std::string("sentence_transformers.models.") + kind}};
  };
  nlohmann::ordered_json modules = {module(0, "", "Transformer"), module(1, "1_Pooling", "Pooling")};
  if (config.encoder->normalizes) modules.push_back(module(2, "2_Normalize", "Normalize"));
  write_document(model_dir / "modules.json", modules);
  std::filesystem::create_directories(model_dir / "1_Pooling");
  const PoolingMode mode = config.encoder->pooling;
  write_document(model_dir / "1_Pooling" / "config.json",
                 {{"word_embedding_dimension", config.hidden_size},
                  {"pooling_mode_cls_token", mode == PoolingMode::kCls},
                  {"pooling_mode_mean_tokens", mode == PoolingMode::kMean},
                  {"pooling_mode_max_tokens", mode == PoolingMode::kMax},
                  {"pooling_mode_lasttoken", mode == PoolingMode::kLast}});
}

std::string header_of(const std::vector<FileTensor>& tensors, DataType type) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::uint64_t offset = 0;
  for (const auto& tensor : tensors) {
    const std::uint64_t end = offset + tensor.size() * size_of(type);
    header[tensor.name] = {{"dtype", type == DataType::kF32 ? "F32" : "BF16"},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 63) / 64 * 64, ' ');  // keeps the data aligned
  return text;
}

void write_header(std::ofstream& file, const std::string& header) {
  for (int i = 0; i < 8; ++i) {
    file.put(static_cast<char>(header.size() >> (8 * i) & 0xFF));
  }
  file << header;
}

// Makes all other rows 0.
void keep_rows(std::vector<std::uint16_t>& values, const std::vector<std::int32_t>& rows,
               std::uint32_t num_columns) {
  std::vector<bool> is_kept(values.size() / num_columns, false);
  for (const std::int32_t row : rows) is_kept.at(static_cast<std::size_t>(row)) = true;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!is_kept[i / num_columns]) values[i] = 0;
}

}  // namespace

ModelConfig llama_100m() {
  ModelConfig config;
  config.architecture = "LlamaForCausalLM";
  config.hidden_size = 768;
  config.intermediate_size = 2560;
  config.num_layers = 12;
  config.num_heads = 12;
  config.num_kv_heads = 4;
  config.head_dim = 64;
  config.vocabulary_size = 8192;
  config.context_length = 4096;
  config.tied_embeddings = true;
  config.weight_type = DataType::kBF16;
  config.bos_token = 1;
  config.eos_tokens = {2};
  return config;
}

void write_random_llama(const std::filesystem::path& model_dir, const ModelConfig& config, std::uint64_t seed,
                        const std::vector<std::int32_t>& drawn_tokens, std::uint64_t distinct_values) {
  if (config.tied_embeddings && !drawn_tokens.empty())
    throw std::runtime_error(
        "a random model that draws some tokens only needs a head of its own, not tied embeddings");
  std::filesystem::create_directories(model_dir);
  write_llama_config(model_dir / "config.json", config);

  const auto tensors = file_tensors(config);
  const auto path = model_dir / "model.safetensors";
  std::ofstream file(path, std::ios::binary);
  write_header(file, header_of(tensors, DataType::kBF16));
  RandomBits random(seed);
  std::vector<std::uint16_t> values;
  for (const auto& tensor : tensors) {
    const bool is_cut = tensor.is_head && !drawn_tokens.empty();
    const bool repeats = distinct_values != 0 && !is_cut;
    values.resize(repeats ? std::min(distinct_values, tensor.size()) : tensor.size());
    for (auto& value : values) {
      value = rounded_to_bf16(tensor.mean + tensor.deviation * nearly_normal(random));
    }
    if (is_cut) keep_rows(values, drawn_tokens, config.hidden_size);
    for (std::uint64_t done = 0; done < tensor.size(); done += values.size()) {
      const auto count = std::min<std::uint64_t>(values.size(), tensor.size() - done);
      file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(count * 2));
    }
  }
  if (!file.flush()) throw std::runtime_error(path.string() + ": cannot be written");
}

void write_random_bert(const std::filesystem::path& model_dir, const ModelConfig& config,
                       std::uint64_t seed) {
  std::filesystem::create_directories(model_dir);
  write_bert_config(model_dir / "config.json", config);
  const EncoderConfig plain;
  if (config.encoder->pooling != plain.pooling || config.encoder->normalizes != plain.normalizes)
    write_modules(model_dir, config);

  const auto tensors = file_tensors(config);
  const auto path = model_dir / "model.safetensors";
  std::ofstream file(path, std::ios::binary);
  write_header(file, header_of(tensors, DataType::kF32));
  RandomBits random(seed);
  std::vector<float> values;
  for (const auto& tensor : tensors) {
    values.resize(tensor.size());
    for (auto& value : values) value = tensor.mean + tensor.deviation * nearly_normal(random);
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
  }
  if (!file.flush()) throw std::runtime_error(path.string() + ": cannot be written");
}

}  // namespace troupe
