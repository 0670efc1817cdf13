// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/bert_config.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/model/json_file.hpp"
#include "gpu/networks/label_names.hpp"
#include "gpu/networks/sentence_modules.hpp"
#include "gpu/pages/kv_layout.hpp"

namespace troupe {
namespace {

using nlohmann::json;

constexpr std::uint32_t kMaxLayersRun = 4096;  // of ALBERT, which runs some again

struct EncoderArchitecture {
  std::string_view name;
  EncoderFamily family = EncoderFamily::kBert;
  bool classifies = false;
};

constexpr std::array kArchitectures = {
    EncoderArchitecture{kBertArchitecture, EncoderFamily::kBert},
    EncoderArchitecture{"RobertaModel", EncoderFamily::kRoberta},
    EncoderArchitecture{"XLMRobertaModel", EncoderFamily::kRoberta},
    EncoderArchitecture{"DistilBertModel", EncoderFamily::kDistilBert},
    EncoderArchitecture{"AlbertModel", EncoderFamily::kAlbert},
    EncoderArchitecture{"BertForSequenceClassification", EncoderFamily::kBert, true},
    EncoderArchitecture{"RobertaForSequenceClassification", EncoderFamily::kRoberta, true},
    EncoderArchitecture{"XLMRobertaForSequenceClassification", EncoderFamily::kRoberta, true},
    EncoderArchitecture{"DistilBertForSequenceClassification", EncoderFamily::kDistilBert, true},
    EncoderArchitecture{"AlbertForSequenceClassification", EncoderFamily::kAlbert, true}};

const EncoderArchitecture* find_architecture(std::string_view name) {
  const auto* found = std::find_if(kArchitectures.begin(), kArchitectures.end(),
                                   [name](const auto& known) { return known.name == name; });
  return found == kArchitectures.end() ? nullptr : found;
}

// The fields' names in one family's config.json.
struct FieldNames {
  const char *hidden = "hidden_size", *intermediate = "intermediate_size", *layers = "num_hidden_layers",
             *heads = "num_attention_heads", *activation = "hidden_act";
};

FieldNames field_names(EncoderFamily family) {
  if (family != EncoderFamily::kDistilBert) return {};
  return {.hidden = "dim",
          .intermediate = "hidden_dim",
          .layers = "n_layers",
          .heads = "n_heads",
          .activation = "activation"};
}

// Features that would change the numbers and that no code here computes.
void refuse_unsupported(const ConfigFields& fields) {
  if (fields.find("quantization_config") != nullptr) {
    fields.refuse("quantized weights (quantization_config) are not supported");
  }
  const auto positions = fields.text("position_embedding_type").value_or("absolute");
  if (positions != "absolute") {
    fields.refuse("position_embedding_type \"" + positions.substr(0, 48) +
                  "\" is not supported (absolute is)");
  }
  for (const char* name : {"is_decoder", "add_cross_attention"}) {
    if (fields.flag(name, false)) fields.refuse(std::string(name) + " is not supported");
  }
}

Activation read_activation(const ConfigFields& fields, const EncoderArchitecture& architecture) {
  const char* field = field_names(architecture.family).activation;
  return fields.activation(field, architecture.family == EncoderFamily::kAlbert ? "gelu_new" : "gelu");
}

void read_sizes(const ConfigFields& fields, const FieldNames& names, ModelConfig& config) {
  config.hidden_size = fields.required_count(names.hidden, kMaxWidth);
  config.intermediate_size = fields.required_count(names.intermediate, kMaxWidth);
  config.num_layers = fields.required_count(names.layers, kMaxLayers);
  config.num_heads = fields.required_count(names.heads, kMaxHeads);
  config.num_kv_heads = config.num_heads;
  config.vocabulary_size = fields.required_count("vocab_size", kMaxVocabulary);
  config.context_length = fields.required_count("max_position_embeddings", kMaxContext);
  if (config.hidden_size % config.num_heads != 0) {
    fields.refuse(std::string(names.hidden) + " " + std::to_string(config.hidden_size) +
                  " is no multiple of " + names.heads + " " + std::to_string(config.num_heads));
  }
  config.head_dim = config.hidden_size / config.num_heads;
  if (config.head_dim % 8 != 0 || config.head_dim > kMaxHeadDim) {
    fields.refuse("heads of " + std::to_string(config.head_dim) +
                  " are not supported (a multiple of 8 up to 256 is)");
  }
  const double width = config.hidden_size;
  const double parameters = config.num_layers * width * (4.0 * width + 2.0 * config.intermediate_size) +
                            width * (double{1} * config.vocabulary_size + config.context_length);
  if (parameters > kMaxParameters) {
    fields.refuse("the stated sizes make more than 1e13 parameters");
  }
}

// Positions are counted from behind the one that padding has.
void read_first_position(const ConfigFields& fields, ModelConfig& config) {
  const json* pad = fields.find("pad_token_id");
  const bool is_id =
      pad == nullptr || (pad->is_number_unsigned() && pad->get<std::uint64_t>() < kMaxVocabulary);
  if (!is_id) fields.refuse("pad_token_id is " + ConfigFields::shown(*pad) + ", expected a token id");
  const std::uint32_t first = pad == nullptr ? 2 : pad->get<std::uint32_t>() + 1;
  if (config.context_length <= first) {
    fields.refuse("max_position_embeddings is " + std::to_string(config.context_length) +
                  ", but the first position is " + std::to_string(first));
  }
  config.context_length -= first;
  config.encoder->first_position = first;
}

void read_groups(const ConfigFields& fields, ModelConfig& config) {
  EncoderConfig& encoder = *config.encoder;
  encoder.embedding_size = fields.required_count("embedding_size", kMaxWidth);
  encoder.num_groups = fields.count("num_hidden_groups", kMaxLayers).value_or(1);
  encoder.layers_a_group = fields.count("inner_group_num", kMaxLayers).value_or(1);
  if (config.num_layers % encoder.num_groups != 0) {
    fields.refuse("num_hidden_layers " + std::to_string(config.num_layers) +
                  " is no multiple of num_hidden_groups " + std::to_string(encoder.num_groups));
  }
  if (config.num_layers * encoder.layers_a_group > kMaxLayersRun) {
    fields.refuse("num_hidden_layers times inner_group_num is more than " + std::to_string(kMaxLayersRun));
  }
}

void read_family(const ConfigFields& fields, ModelConfig& config) {
  const EncoderFamily family = config.encoder->family;
  config.encoder->num_types =
      family == EncoderFamily::kDistilBert ? 0 : fields.count("type_vocab_size", kMaxHeads).value_or(2);
  if (family == EncoderFamily::kRoberta) read_first_position(fields, config);
  if (family == EncoderFamily::kAlbert) read_groups(fields, config);
  config.norm_epsilon = family == EncoderFamily::kDistilBert
                            ? 1e-12F  // its code's, which no file states
                            : fields.number("layer_norm_eps", 0.0F, 1.0F).value_or(1e-12F);
}

}  // namespace

ModelConfig read_bert_config(const std::string& architecture, const ConfigFields& fields,
                             const std::filesystem::path& model_dir) {
  const EncoderArchitecture* const found = find_architecture(architecture);
  if (found == nullptr) fields.refuse("the architecture " + architecture + " is not supported");
  const EncoderArchitecture& known = *found;
  ModelConfig config;
  config.architecture = architecture;
  config.encoder.emplace().family = known.family;
  refuse_unsupported(fields);
  read_sizes(fields, field_names(known.family), config);
  read_family(fields, config);
  config.weight_type = fields.weight_type();
  config.encoder->activation = read_activation(fields, known);
  if (known.classifies) {
    config.encoder->classifier = {
        .labels = read_labels(fields),
        .are_independent = fields.text("problem_type") == "multi_label_classification"};
    return config;
  }
  const SentenceModules modules = read_sentence_modules(model_dir, config.hidden_size);
  config.encoder->pooling = modules.pooling;
  config.encoder->normalizes = modules.normalizes;
  config.encoder->max_input_tokens = modules.max_tokens;
  return config;
}

}  // namespace troupe
