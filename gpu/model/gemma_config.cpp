// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/gemma_config.hpp"

namespace troupe {
namespace {

using nlohmann::json;

// null switches it off. The kernels' tanh errs by about 6e-8, which a cap of c makes 6e-8 c: a large one is
// refused.
float read_cap(const ConfigFields& fields, const char* name, float otherwise) {
  if (!fields.has(name)) return otherwise;
  constexpr float kMaxCap = 1e4F;
  return fields.number(name, 1e-3F, kMaxCap).value_or(0.0F);
}

[[noreturn]] void refuse_partial(const ConfigFields& fields) {
  fields.refuse("partial_rotary_factor other than 1 is not supported");
}

// The entry of a kind of layer; both names of the object are in use. Null: none.
const json* find_rope(const ConfigFields& fields, const char* kind) {
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    const json* kinds = fields.find(name);
    if (kinds != nullptr && kinds->is_object() && kinds->contains(kind)) return &(*kinds)[kind];
  }
  return nullptr;
}

// Of newer files in an object for each kind of layer, of older ones in a field.
float read_local_theta(const ConfigFields& fields, const std::string& file) {
  constexpr float kUsual = 10000.0F;
  const json* rope = find_rope(fields, "sliding_attention");
  if (rope == nullptr) return fields.number("rope_local_base_freq", 1.0F, 1e12F).value_or(kUsual);
  const ConfigFields local(*rope, file + ": the rope scaling of sliding_attention");
  auto type = local.text("rope_type");
  if (!type) type = local.text("type");
  if (type && *type != "default")
    local.refuse("type \"" + type->substr(0, 48) + "\" is not supported (default is)");
  if (local.number("partial_rotary_factor", 0.0F, 1.0F).value_or(1.0F) != 1.0F) refuse_partial(local);
  return local.number("rope_theta", 1.0F, 1e12F).value_or(kUsual);
}

}  // namespace

GemmaConfig read_gemma(const ConfigFields& fields, const std::string& file, Family family,
                       const ModelConfig& config) {
  const auto activation = fields.text("hidden_activation").value_or("gelu_pytorch_tanh");
  if (activation != "gelu_pytorch_tanh") {
    fields.refuse("hidden_activation \"" + activation.substr(0, 48) +
                  "\" is not supported (gelu_pytorch_tanh is)");
  }
  if (fields.flag("use_bidirectional_attention", false))
    fields.refuse("attention to later tokens (use_bidirectional_attention) is not supported");
  if (config.rotary_dim != config.head_dim) refuse_partial(fields);
  const bool is_second = family == Family::kGemma2;
  GemmaConfig gemma;
  gemma.query_scalar = fields.number("query_pre_attn_scalar", 1e-3F, 1e6F).value_or(256.0F);
  gemma.attention_cap = read_cap(fields, "attn_logit_softcapping", is_second ? 50.0F : 0.0F);
  gemma.logit_cap = read_cap(fields, "final_logit_softcapping", is_second ? 30.0F : 0.0F);
  if (!is_second) gemma.local_theta = read_local_theta(fields, file);
  return gemma;
}

}  // namespace troupe
