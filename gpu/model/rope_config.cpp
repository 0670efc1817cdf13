// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/rope_config.hpp"

#include <cmath>

namespace troupe {
namespace {

using nlohmann::json;

constexpr float kMaxTheta = 1e12F;
constexpr float kMaxFactor = 1e6F;

// Some checkpoints of Phi-3 call it by older names.
std::string scaling_type(const ConfigFields& rope, bool has_factors) {
  auto type = rope.text("rope_type");
  if (!type) type = rope.text("type");
  if (!type) return "default";
  return has_factors && (*type == "su" || *type == "yarn") ? "longrope" : *type;
}

float required_factor(const ConfigFields& rope) {
  const auto factor = rope.number("factor", 1.0F, kMaxFactor);
  if (!factor) rope.refuse("has no factor");
  return *factor;
}

void read_llama3(const ConfigFields& rope, RopeScaling& scaling) {
  scaling.factor = required_factor(rope);
  const auto low = rope.number("low_freq_factor", 1e-3F, kMaxFactor);
  const auto high = rope.number("high_freq_factor", 1e-3F, kMaxFactor);
  const auto original = rope.count("original_max_position_embeddings", kMaxContext);
  if (!low || !high || !original || *high <= *low) {
    rope.refuse("needs low_freq_factor < high_freq_factor and original_max_position_embeddings");
  }
  scaling.low_frequency_factor = *low;
  scaling.high_frequency_factor = *high;
  scaling.original_context_length = *original;
}

// 0.1 m ln f + 1.
float yarn_magnitude(float factor, float m) {
  return factor <= 1.0F ? 1.0F : 0.1F * m * std::log(factor) + 1.0F;
}

void read_yarn(const ConfigFields& rope, const ModelConfig& config, RopeScaling& scaling) {
  scaling.factor = required_factor(rope);
  scaling.original_context_length =
      rope.count("original_max_position_embeddings", kMaxContext).value_or(config.context_length);
  scaling.fast_rotations = rope.number("beta_fast", 1e-3F, kMaxFactor).value_or(32.0F);
  scaling.slow_rotations = rope.number("beta_slow", 1e-3F, kMaxFactor).value_or(1.0F);
  if (scaling.fast_rotations <= scaling.slow_rotations) rope.refuse("needs beta_slow < beta_fast");
  scaling.rounds_bounds = rope.flag("truncate", true);
  const auto m = rope.number("mscale", 0.0F, kMaxFactor),
             of_all = rope.number("mscale_all_dim", 0.0F, kMaxFactor);
  const bool has_both = m && of_all && *m > 0.0F && *of_all > 0.0F;
  scaling.magnitude =
      rope.number("attention_factor", 1e-3F, kMaxFactor)
          .value_or(has_both ? yarn_magnitude(scaling.factor, *m) / yarn_magnitude(scaling.factor, *of_all)
                             : yarn_magnitude(scaling.factor, 1.0F));
}

std::vector<float> read_divisors(const ConfigFields& rope, const char* name, std::size_t count) {
  const json* list = rope.find(name);
  if (list == nullptr || !list->is_array() || list->size() != count) {
    rope.refuse(std::string(name) + " is not a list of " + std::to_string(count) + " numbers");
  }
  std::vector<float> divisors;
  for (const json& value : *list) {
    const double divisor = value.is_number() ? value.get<double>() : 0.0;
    if (!(divisor >= 1e-6 && divisor <= 1e6)) {
      rope.refuse(std::string(name) + " has " + ConfigFields::shown(value) +
                  ", expected a number from 1e-6 to 1e6");
    }
    divisors.push_back(static_cast<float>(divisor));
  }
  return divisors;
}

void read_longrope(const ConfigFields& fields, const ConfigFields& rope, const ModelConfig& config,
                   RopeScaling& scaling) {
  const char* name = "original_max_position_embeddings";
  auto original = fields.count(name, kMaxContext);  // the outer one wins
  if (!original) original = rope.count(name, kMaxContext);
  if (!original) rope.refuse(std::string("longrope needs ") + name);
  scaling.original_context_length = *original;
  scaling.short_divisors = read_divisors(rope, "short_factor", config.rotary_dim / 2);
  scaling.long_divisors = read_divisors(rope, "long_factor", config.rotary_dim / 2);
  const float stretch = static_cast<float>(config.context_length) / static_cast<float>(*original);
  const float factor = rope.number("factor", 1.0F, kMaxFactor).value_or(stretch);
  const float magnitude = factor <= 1.0F || *original < 2
                              ? 1.0F
                              : std::sqrt(1.0F + std::log(factor) / std::log(static_cast<float>(*original)));
  scaling.magnitude = rope.number("attention_factor", 1e-3F, kMaxFactor).value_or(magnitude);
}

void read_partial(const ConfigFields& fields, ModelConfig& config) {
  auto part = fields.exact_number("partial_rotary_factor", 0.0, 1.0);
  if (!part) part = fields.exact_number("rotary_pct", 0.0, 1.0);  // GPT-NeoX's name
  if (!part) return;
  config.rotary_dim = static_cast<std::uint32_t>(config.head_dim * *part);  // cut in f64, as Python does
  if (config.rotary_dim == 0 || config.rotary_dim % 2 != 0) {
    fields.refuse("partial_rotary_factor rotates " + std::to_string(config.rotary_dim) + " of " +
                  std::to_string(config.head_dim) + " elements of a head, expected an even number above 0");
  }
}

}  // namespace

void read_rope(const ConfigFields& fields, const std::string& file, RopeDefaults defaults,
               ModelConfig& config) {
  auto theta = fields.number("rope_theta", 1.0F, kMaxTheta);
  if (!theta) theta = fields.number("rotary_emb_base", 1.0F, kMaxTheta);  // GPT-NeoX's name
  config.rope_theta = theta.value_or(defaults.theta);
  config.rotary_dim = static_cast<std::uint32_t>(static_cast<float>(config.head_dim) * defaults.part);
  read_partial(fields, config);
  const json* object = fields.find("rope_parameters");
  if (object == nullptr) object = fields.find("rope_scaling");
  if (object == nullptr) return;
  if (object->is_object() && object->contains("full_attention")) object = &(*object)["full_attention"];
  const ConfigFields rope(*object, file + ": the rope scaling");
  config.rope_theta = rope.number("rope_theta", 1.0F, kMaxTheta).value_or(config.rope_theta);
  read_partial(rope, config);

  RopeScaling scaling{.type = scaling_type(rope, rope.find("long_factor") != nullptr)};
  // NTK scaling begins beyond max_position_embeddings, where nothing is served.
  if (scaling.type == "default" || scaling.type == "dynamic") return;
  if (scaling.type == "linear") {
    scaling.factor = required_factor(rope);
  } else if (scaling.type == "llama3") {
    read_llama3(rope, scaling);
  } else if (scaling.type == "yarn") {
    if (config.rope_theta <= 1.0F) rope.refuse("rope_theta is 1, which yarn can't scale");
    read_yarn(rope, config, scaling);
  } else if (scaling.type == "longrope") {
    read_longrope(fields, rope, config, scaling);
  } else {
    rope.refuse("type \"" + scaling.type.substr(0, 48) +
                "\" is not supported (linear, dynamic, llama3, yarn and longrope are)");
  }
  config.rope_scaling = std::move(scaling);
}

}  // namespace troupe
